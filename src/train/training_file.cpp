// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "train/training_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>

#include "base/error.hpp"
#include "base/text.hpp"
#include "io/durable_file.hpp"

namespace shard8::train {

using Json = nlohmann::ordered_json;

namespace {

constexpr int kFormat = 1;

template <class T>
Json json_of(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

template <class T>
void read(const Json& json, std::optional<T>& value) {
  if (!json.is_null()) value = json.get<T>();
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
  return checkpoint::ManifestInput{json.at("path").get<std::string>(), json.at("length").get<std::uint64_t>(),
                                   json.at("samples").get<std::int64_t>(), json.at("digest").get<std::string>()};
}

Leg leg_of(const Json& json) {
  Leg leg;
  leg.first_step = json.at("first_step").get<std::int64_t>();
  leg.trained_again = json.at("trained_again").get<std::int64_t>();
  leg.date = json.at("date").get<std::string>();
  leg.restart = json.at("restart").get<std::string>();
  leg.process_began = json.value("process_began", "");
  read(json.value("start_up_s", Json(nullptr)), leg.start_up_s);
  leg.ended = json.value("ended", "");
  leg.last_seen = json.value("last_seen", "");
  leg.lost = json.value("lost", std::int64_t{0});
  read(json.value("lost_s", Json(nullptr)), leg.lost_s);
  read(json.at("next_step"), leg.next_step);
  read(json.at("checkpoint"), leg.checkpoint);
  read(json.at("seconds"), leg.seconds);
  leg.end = json.at("end").get<std::string>();
  return leg;
}

TrainingFile file_of(const Json& json) {
  TrainingFile file;
  file.identity.id = json.at("id").get<std::string>();
  if (const Json& parent = json.at("parent"); !parent.is_null())
    file.identity.parent =
        checkpoint::Parent{parent.at("run").get<std::string>(), parent.at("step").get<std::int64_t>()};
  file.origin = json.at("origin").get<std::string>();
  file.inputs = {input_of(json.at("data")), input_of(json.at("weights")),
                 input_of(json.value("validation", Json(nullptr)))};
  file.slurm_job = json.at("slurm_job").get<std::string>();
  file.replacing = json.at("replacing").get<std::int64_t>();
  file.finished = json.at("finished").get<bool>();
  for (const Json& leg : json.at("legs")) file.legs.push_back(leg_of(leg));
  for (const Json& key : json.at("deck"))
    file.deck.push_back(
        {key.at("key").get<std::string>(), key.at("value").get<std::string>(), key.at("origin").get<std::string>()});
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
    const Json json = Json::parse(*text);
    if (json.at("format").get<int>() > kFormat)
      base::fail(base::ExitCode::deck,
                 "'{}': format {} is newer than {}, which this program reads: use the program "
                 "that wrote it, or set output.dir to another folder",
                 path, json.at("format").dump(), kFormat);
    return file_of(json);
  } catch (const Json::exception& e) {
    base::fail(base::ExitCode::deck,
               "'{}': it does not say whose the files in output.dir are: {}; remove this file if they belong to this "
               "training, or set output.dir to another folder",
               path, base::quotable(e.what()));
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
