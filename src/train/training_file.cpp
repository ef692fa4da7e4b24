// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "train/training_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/json.hpp"
#include "deck/choices.hpp"
#include "deck/load.hpp"
#include "io/file.hpp"
#include "model/parameters.hpp"

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

std::optional<checkpoint::ManifestInput> input_in(const Json& json) {
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
  file.inputs = {input_in(json_member(json, "data")), input_in(json_member(json, "weights")),
                 validation == json.end() ? std::nullopt : input_in(*validation)};
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

namespace {

/// Whether a key is taken from a checkpoint's deck.
bool is_taken(std::string_view key) {
  constexpr std::array<std::string_view, 5> kGroups = {"model.", "moe.", "precision.", "fp8.", "optimizer."};
  constexpr std::array<std::string_view, 7> kKeys = {"mesh.replicate", "mesh.shard",       "mesh.tensor", "mesh.expert",
                                                     "data.batch",     "data.micro_batch", "run.steps"};
  if (key == "model.init_file") return false;
  return std::find(kKeys.begin(), kKeys.end(), key) != kKeys.end() ||
         std::any_of(kGroups.begin(), kGroups.end(), [&](std::string_view group) { return key.starts_with(group); });
}

}  // namespace

std::string drawn_experts_text(const std::string& folder, const deck::ModelConfig& saved) {
  if (!saved.moe.on() || saved.moe.routing == deck::MoeRouting::learned) return {};
  return fmt::format(
      "checkpoint {}: was trained with moe.routing = {}, which draws experts, so its router never chose one; for "
      "weights whose router chooses, train with moe.routing = learned",
      folder, deck::to_string(saved.moe.routing));
}

deck::Config saved_config(const checkpoint::Checkpoint& checkpoint) {
  std::vector<std::string> keys;
  for (const checkpoint::ManifestKey& key : checkpoint.manifest.deck)
    if (is_taken(key.key)) keys.push_back(key.key + "=" + key.value);
  try {
    return deck::load_text("data: {kind: synthetic}\n", checkpoint.folder + "/deck.yaml", keys).config;
  } catch (const base::Error& error) {
    base::fail(base::ExitCode::checkpoint,
               "checkpoint {}: this program cannot read its deck: use {}, which wrote it, or another checkpoint\n{}",
               checkpoint.folder, checkpoint.manifest.program, error.what());
  }
}

namespace {

constexpr std::string_view kOverlap = "overlap ";

}  // namespace

std::string plan_text(const SavedChoices& choices) {
  if (choices.overlap.empty()) return choices.algorithms;
  std::string overlap = choices.overlap;
  std::replace(overlap.begin(), overlap.end(), '\n', ' ');  // which JSON takes for the same
  return std::string(kOverlap) + overlap + '\n' + choices.algorithms;
}

SavedChoices choices_of_plan(const std::string& plan) {
  if (!plan.starts_with(kOverlap)) return {plan, {}};
  const std::size_t end = std::min(plan.find('\n'), plan.size());
  return {plan.substr(std::min(end + 1, plan.size())), plan.substr(kOverlap.size(), end - kOverlap.size())};
}

namespace {

/// What a rank of the saved mesh that is the first one of a shard group holds of a Hugging Face tensor, and how the
/// group shards it.
struct Held {
  base::Place place;
  base::AxisSet sharded;
  model::SourceBox source;
  fsdp::ShardLayout layout;
};
using HeldByName = std::map<std::string, std::vector<Held>>;

/// Places of the saved mesh: for each way in which a parameter is cut, the first rank with each of its parts.
std::vector<base::Place> places_of_cuts(const base::Extents& saved) {
  std::set<int> ranks;
  for (const base::AxisSet cut : {base::AxisSet::tensor, base::AxisSet::expert})
    for (int n = 0; n < saved.ranks(cut); ++n) ranks.insert(base::Place(saved, 0).peer(cut, n));
  std::vector<base::Place> places;
  for (const int rank : ranks) places.emplace_back(saved, rank);
  return places;
}

HeldByName all_held(const Setup& setup, const base::Extents& saved) {
  HeldByName all;
  for (const base::Place& place : places_of_cuts(saved)) {
    const auto units = model::make_units(setup.config.model, place);
    const auto shapes = model::unit_shapes(units, setup.weights);
    for (std::size_t u = 0; u < units.size(); ++u) {
      for (std::size_t p = 0; p < units[u].parameters.size(); ++p) {
        const model::ParameterSpec& parameter = units[u].parameters[p];
        const base::Sharing& sharing = parameter.sharing;
        // Another rank writes it, or another place of the list stands for the shards.
        if (!place.first(sharing.replicas() | sharing.sharded)) continue;
        const auto layout =
            fsdp::ShardLayout::make(parameter.rows, saved.ranks(sharing.sharded), shapes[u].parameters[p].granularity);
        for (const model::SourceBox& source : parameter.sources)
          all[source.name].push_back({place, sharing.sharded, source, layout});
      }
    }
  }
  return all;
}

/// The box in (out, in) coordinates of the parameter. `shape` are the extents of the tensor that holds it, which may
/// count blocks.
io::Box in_parameter(const io::Box& box, const std::vector<std::int64_t>& shape, const model::SourceBox& source) {
  const std::int64_t stored_cols = shape.size() == 2 ? shape[1] : 1;
  const std::int64_t rows = std::max<std::int64_t>(1, source.stored_rows() / std::max<std::int64_t>(1, shape[0]));
  const std::int64_t cols = std::max<std::int64_t>(1, source.stored_cols() / std::max<std::int64_t>(1, stored_cols));
  const io::Box elements{box.row0 * rows, box.rows * rows, box.col0 * cols, box.cols * cols};
  return source.stored_transposed ? io::transposed(elements) : elements;
}

}  // namespace

checkpoint::LikelyRanks likely_ranks(const Setup& setup, const base::Extents& saved) {
  return [all = std::make_shared<const HeldByName>(all_held(setup, saved))](
             const std::string& name, const std::string&, const std::vector<std::int64_t>& shape, const io::Box& box) {
    std::vector<std::int64_t> ranks;
    const auto found = all->find(name);
    const bool scalar = shape.size() == 1 && shape[0] == 1;  // one number for a whole tensor: rank 0 writes it
    if (found == all->end() || scalar) return std::vector<std::int64_t>{0};
    for (const Held& held : found->second) {
      const io::Box part = io::intersect(in_parameter(box, shape, held.source), held.source.box);
      if (part.empty()) continue;
      const std::int64_t first = held.source.local_row + part.row0 - held.source.box.row0;
      for (std::int64_t shard = first / held.layout.rows_per_shard;
           shard <= (first + part.rows - 1) / held.layout.rows_per_shard; ++shard)
        ranks.push_back(held.place.peer(held.sharded, static_cast<int>(shard)));
    }
    return ranks;
  };
}

}  // namespace shard8::train
