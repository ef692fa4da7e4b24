// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/plain_file.hpp"
#include "checkpoint/directory.hpp"
#include "checkpoint/reader.hpp"
#include "comm/agree.hpp"
#include "deck/layout.hpp"
#include "deck/number.hpp"
#include "train/checkpoints.hpp"
#include "train/state.hpp"
#include "train/training_file.hpp"

namespace shard8::train {

using base::ExitCode;
using checkpoint::Manifest;
namespace fs = std::filesystem;

namespace {

/// The tensors without those that Trainer::start() makes from the masters.
std::vector<checkpoint::StateTensor> without_fp8(std::vector<checkpoint::StateTensor> tensors) {
  std::erase_if(tensors,
                [](const checkpoint::StateTensor& t) { return t.content >= checkpoint::Content::fp8_rowwise; });
  return tensors;
}

std::vector<std::string> remarks_of(const RestartPoint& point, const deck::Config& config, const RunDescription& run,
                                    bool starts_fp8) {
  std::vector<std::string> remarks;
  for (const DeckChange& change : deck_changes(point.manifest.deck, run.deck))
    remarks.push_back("changed    " + text_of(change));
  for (const DeckChange& change : input_changes(point.manifest, run.inputs))
    remarks.push_back("changed    " + text_of(change));
  if (point.manifest.format == 1 && (run.inputs.data || run.inputs.weights))
    remarks.emplace_back(
        "inputs     not compared: the checkpoint is of an early version, which kept no digests of them");
  if (starts_fp8)
    remarks.emplace_back("converted  weights in FP8 are cast from the masters; scales and histories begin anew");
  if (point.decay_steps) {
    const std::int64_t steps = *point.decay_steps;
    remarks.push_back(fmt::format(
        "schedule   decays over {} steps, as in the checkpoint; set optimizer.decay_steps to change it{}", steps,
        steps >= config.run.steps
            ? ""
            : fmt::format(": steps {} to {} have the learning rate optimizer.min_lr, {}", steps + 1, config.run.steps,
                          deck::format_real(config.optimizer.min_lr))));
  }
  return remarks;
}

/// Reads a manifest on rank 0 and gives it to all ranks.
RestartPoint open_point(const comm::Communicator& world, const std::string& folder) {
  std::string text;
  comm::agree_on_root(world, 0, [&] { text = checkpoint::read_manifest_text(folder); });
  world.broadcast(text, 0);
  RestartPoint point;
  point.folder = folder;
  comm::agree(world, [&] { point.manifest = checkpoint::parse_manifest(text, folder + "/manifest.json"); });
  return point;
}

}  // namespace

std::string checkpoint_folder(const deck::Config& config) {
  const auto usual = deck::default_checkpoint_folder(config);
  if (!usual) return config.checkpoint.dir;
  const base::FileKind kind = base::kind_of_file(*usual);
  if (!kind.why.empty())
    base::fail(ExitCode::environment, "cannot examine '{}': {}; set output.dir to a folder that can be written to",
               usual->string(), kind.why);
  return kind.is_folder() ? usual->string() : std::string();
}

std::string checkpoint_folder(const deck::Config& config, const comm::Communicator& world) {
  std::string folder;
  comm::agree_on_root(world, 0, [&] { folder = checkpoint_folder(config); });
  world.broadcast(folder, 0);
  return folder;
}

Start find_start_of(const deck::Config& config, const std::string& folder, const RunDescription& run, const Say& say,
                    bool shares_folders) {
  const StartQuestion question{config, folder, run.deck, run.inputs, run.requeued, run.slurm_job};
  Start start = find_start(question, say);
  if (shares_folders) return start;
  const Others others = find_others(question, start);
  refuse_others(question, start, others);
  start.has_others = others.any();
  return start;
}

namespace {

using PlainJson = nlohmann::json;

std::string pack(const Start& start) {
  PlainJson json{{"id", start.identity.id},    {"points", start.points},
                 {"required", start.required}, {"begins_again", start.begins_again},
                 {"is_child", start.is_child}, {"has_others", start.has_others}};
  if (const auto& parent = start.identity.parent) json["parent"] = {parent->run, parent->step};
  const auto bytes = PlainJson::to_cbor(json);  // paths need not be UTF-8
  return {bytes.begin(), bytes.end()};
}

Start unpack(const std::string& text) {
  const PlainJson json = PlainJson::from_cbor(text);
  Start start;
  start.identity.id = json.at("id").get<std::string>();
  if (const auto parent = json.find("parent"); parent != json.end())
    start.identity.parent = checkpoint::Parent{parent->at(0).get<std::string>(), parent->at(1).get<std::int64_t>()};
  start.points = json.at("points").get<std::vector<std::string>>();
  start.required = json.at("required").get<bool>();
  start.begins_again = json.at("begins_again").get<bool>();
  start.is_child = json.at("is_child").get<bool>();
  start.has_others = json.at("has_others").get<bool>();
  return start;
}

}  // namespace

RestartPoints find_restart(const deck::Config& config, const std::string& folder, const comm::Communicator& world,
                           const RunDescription& run, const Say& say, bool shares_folders) {
  std::string found;
  comm::agree_on_root(world, 0, [&] { found = pack(find_start_of(config, folder, run, say, shares_folders)); });
  world.broadcast(found, 0);
  RestartPoints restart{unpack(found), {}};
  if (!restart.start.points.empty()) restart.first = open_point(world, restart.start.points.front());
  return restart;
}

namespace {

/// Whether weights in FP8 and their scales are made from the masters of a checkpoint.
bool starts_fp8_from(const Manifest& manifest, const Setup& setup, const RunDescription& run) {
  return setup.weights.recipe.on() && changes_fp8(deck_changes(manifest.deck, run.deck));
}

/// Requires that the histories of amaxes have as many entries as steps can have entered.
void require_history(const fp8::ScalingState& scaling, const RestartPoint& point) {
  if (const std::string why = scaling.problem_of_entries(point.manifest.step); !why.empty())
    base::fail(ExitCode::checkpoint, "{}: tensor scaling_state, {}: {}; restart from another checkpoint", point.folder,
               name_of(checkpoint::Content::fp8_history_entries), why);
}

void tell_of_fallback(const base::Error& error, const std::string& next, const Say& say) {
  say(fmt::format("{}\n  going on from the checkpoint before it, {}", error.what(), next));
}

}  // namespace

void require_points(const Start& start, const Setup& setup, const RunDescription& run, const Say& say) {
  if (start.points.empty()) return;
  State state(setup, tensor::ArenaSet::measure());
  const auto all = state_tensors(setup, state);
  for (std::size_t at = 0;; ++at) {
    const std::string& folder = start.points[at];
    try {
      const Manifest manifest = checkpoint::read_manifest(folder);
      checkpoint::Reader reader(folder, manifest, likely_ranks(setup, manifest.mesh));
      reader.require(starts_fp8_from(manifest, setup, run) ? without_fp8(all) : all);
      return;
    } catch (const base::Error& error) {
      if (start.required || error.code() != ExitCode::checkpoint || at + 1 == start.points.size()) throw;
      tell_of_fallback(error, start.points[at + 1], say);
    }
  }
}

std::optional<RestartPoint> restore(const RestartPoints& restart, Assembly& assembly, const RunDescription& run,
                                    const Say& say) {
  if (!restart.first) return std::nullopt;
  const comm::Communicator& world = assembly.mesh().world;
  const auto all = state_tensors(assembly.setup(), assembly.trainer().state());
  std::optional<RestartPoint> point = restart.first;
  for (std::size_t at = 0;; ++at) {
    try {
      if (!point) point = open_point(world, restart.start.points[at]);
      const bool starts_fp8 = starts_fp8_from(point->manifest, assembly.setup(), run);
      const auto tensors = starts_fp8 ? without_fp8(all) : all;
      comm::agree(world, [&] {
        refuse_changes(deck_changes(point->manifest.deck, run.deck), assembly.setup().config.checkpoint.allow_changes,
                       point->folder);
        checkpoint::Reader reader(point->folder, point->manifest, likely_ranks(assembly.setup(), point->manifest.mesh));
        reader.require(tensors);
        reader.restore(assembly.exec(), tensors);
        reader.verify_rest(world.rank(), world.size());
        if (!starts_fp8) require_history(assembly.trainer().state().scaling, *point);
      });
      if (starts_fp8) assembly.trainer().start();
      assembly.begin_at(point->manifest.step, point->manifest.sequences);
      point->decay_steps = saved_decay(point->manifest.deck, run.deck);
      if (point->decay_steps) assembly.set_decay_steps(*point->decay_steps);
      point->remarks = remarks_of(*point, assembly.setup().config, run, starts_fp8);
      return point;
    } catch (const comm::AgreedError& e) {
      const bool last = at + 1 == restart.start.points.size();
      if (restart.start.required || e.code() != ExitCode::checkpoint || last) throw;
      if (world.rank() == 0) tell_of_fallback(e, restart.start.points[at + 1], say);
      point.reset();
    }
  }
}

}  // namespace shard8::train
