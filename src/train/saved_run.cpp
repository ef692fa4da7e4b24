// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "train/saved_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "deck/choices.hpp"
#include "deck/load.hpp"
#include "model/parameters.hpp"

namespace shard8::train {

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
