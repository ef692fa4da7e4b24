// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "train/training_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>

#include "base/error.hpp"
#include "base/json.hpp"
#include "io/durable_file.hpp"

namespace shard8::train {

using Json = nlohmann::ordered_json;
using base::json_member;
using base::json_value;
using base::json_value_or;

namespace {

constexpr int kFormat = 1;

template <class T>
Json json_of(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

template <class T>
void read(const Json& json, std::optional<T>& value) {
  if (!json.is_null()) value = json_value<T>(json);
}

Json json_of(const Leg& leg) {
  return {{"first_step", leg.first_step},
          {"trained_again", leg.trained_again},
          {"date", leg.date},
          {"restart", leg.restart},
          {"process_began", leg.process_began},
          {"start_up_s", json_of(leg.start_up_s)},
          {"ended", leg.ended},
          {"last_seen", leg.last_seen},
          {"lost", leg.lost},
          {"lost_s", json_of(leg.lost_s)},
          {"next_step", json_of(leg.next_step)},
          {"checkpoint", json_of(leg.checkpoint)},
          {"seconds", json_of(leg.seconds)},
          {"end", leg.end}};
}

Json json_of(const std::optional<checkpoint::ManifestInput>& input) {
  if (!input) return nullptr;
  return {{"path", input->path}, {"length", input->length}, {"samples", input->samples}, {"digest", input->digest}};
}

std::optional<checkpoint::ManifestInput> input_of(const Json& json) {
  if (json.is_null()) return std::nullopt;
  return checkpoint::ManifestInput{json_value<std::string>(json, "path"), json_value<std::uint64_t>(json, "length"),
                                   json_value<std::int64_t>(json, "samples"), json_value<std::string>(json, "digest")};
}

Leg leg_of(const Json& json) {
  Leg leg;
  leg.first_step = json_value<std::int64_t>(json, "first_step");
  leg.trained_again = json_value<std::int64_t>(json, "trained_again");
  leg.date = json_value<std::string>(json, "date");
  leg.restart = json_value<std::string>(json, "restart");
  leg.process_began = json_value_or<std::string>(json, "process_began", "");
  if (json.contains("start_up_s")) read(json_member(json, "start_up_s"), leg.start_up_s);
  leg.ended = json_value_or<std::string>(json, "ended", "");
  leg.last_seen = json_value_or<std::string>(json, "last_seen", "");
  leg.lost = json_value_or<std::int64_t>(json, "lost", 0);
  if (json.contains("lost_s")) read(json_member(json, "lost_s"), leg.lost_s);
  read(json_member(json, "next_step"), leg.next_step);
  read(json_member(json, "checkpoint"), leg.checkpoint);
  read(json_member(json, "seconds"), leg.seconds);
  leg.end = json_value<std::string>(json, "end");
  return leg;
}

TrainingFile file_of(const Json& json) {
  TrainingFile file;
  file.identity.id = json_value<std::string>(json, "id");
  if (const Json& parent = json_member(json, "parent"); !parent.is_null())
    file.identity.parent =
        checkpoint::Parent{json_value<std::string>(parent, "run"), json_value<std::int64_t>(parent, "step")};
  file.origin = json_value<std::string>(json, "origin");
  const auto validation = json.find("validation");  // files of earlier programs do not have it
  file.inputs = {input_of(json_member(json, "data")), input_of(json_member(json, "weights")),
                 validation == json.end() ? std::nullopt : input_of(*validation)};
  file.slurm_job = json_value<std::string>(json, "slurm_job");
  file.replacing = json_value<std::int64_t>(json, "replacing");
  file.finished = json_value<bool>(json, "finished");
  for (const Json& leg : base::json_list(json_member(json, "legs"))) file.legs.push_back(leg_of(leg));
  for (const Json& key : base::json_list(json_member(json, "deck")))
    file.deck.push_back({json_value<std::string>(key, "key"), json_value<std::string>(key, "value"),
                         json_value<std::string>(key, "origin")});
  return file;
}

std::string path_in(const std::string& folder) { return fmt::format("{}/{}", folder, TrainingFile::kName); }

}  // namespace

std::string to_text(const TrainingFile& file) {
  const auto& parent = file.identity.parent;
  Json json{{"format", kFormat},
            {"id", file.identity.id},
            {"parent", parent ? Json{{"run", parent->run}, {"step", parent->step}} : Json(nullptr)},
            {"origin", file.origin},
            {"data", json_of(file.inputs.data)},
            {"weights", json_of(file.inputs.weights)},
            {"validation", json_of(file.inputs.validation)},
            {"slurm_job", file.slurm_job},
            {"replacing", file.replacing},
            {"finished", file.finished},
            {"legs", Json::array()},
            {"deck", Json::array()}};
  for (const Leg& leg : file.legs) json["legs"].push_back(json_of(leg));
  for (const checkpoint::ManifestKey& key : file.deck)
    json["deck"].push_back({{"key", key.key}, {"value", key.value}, {"origin", key.origin}});
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::optional<TrainingFile> read_training_file(const std::string& folder) {
  const std::string path = path_in(folder);
  const auto text = io::text_if_there(path);
  if (!text) return std::nullopt;
  try {
    const Json json = base::parse_json<Json>(*text);
    return base::in_json(json, [&] {
      if (const int format = json_value<int>(json, "format"); format > kFormat)
        base::fail(base::ExitCode::deck,
                   "'{}': format {} is newer than {}, which this program reads: use the program "
                   "that wrote it, or set output.dir to another folder",
                   path, format, kFormat);
      return file_of(json);
    });
  } catch (const base::JsonProblem& e) {
    base::fail(base::ExitCode::deck,
               "'{}': it does not say whose the files in output.dir are: {}; remove this file if they belong to this "
               "training, or set output.dir to another folder",
               path, e.what());
  }
}

void write_training_file(const std::string& folder, const TrainingFile& file) {
  io::write_durably(path_in(folder), to_text(file));
}

bool has_used_restart(const std::string& folder, const std::string& restart) {
  try {
    const auto file = read_training_file(folder);
    return file &&
           std::any_of(file->legs.begin(), file->legs.end(), [&](const Leg& leg) { return leg.restart == restart; });
  } catch (const base::Error&) {
    return false;  // whoever needs the file says what is wrong with it
  }
}

std::string draw_id() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

}  // namespace shard8::train
