// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>

#include "train/trainer.hpp"

namespace shard8::train {

namespace {

/// Whether a unit's shards hold the next step's weights as soon as the unit is updated. Otherwise FP8 bytes or scales
/// of its weights are set after all updates (Fp8Weights::after_update).
bool complete_when_updated(const model::WeightFormat& weights) {
  return !weights.recipe.on() || (weights.recipe.delayed() && weights.stored());
}

/// Whether one of the next step's first gathers can be of this unit. The first gathers are those of the first visit and
/// of the `prefetch` visits after it.
bool gathered_first(const Setup& setup, const std::vector<fsdp::Visit>& visits, int unit) {
  const std::size_t count = std::min(visits.size(), static_cast<std::size_t>(setup.fsdp.prefetch) + 1);
  return std::any_of(visits.begin(), visits.begin() + static_cast<std::ptrdiff_t>(count),
                     [unit](const fsdp::Visit& visit) { return visit.unit == unit; });
}

}  // namespace

UpdatePlan plan_updates(const Setup& setup) {
  UpdatePlan plan;
  plan.order = model::reductions(setup.config.model);
  if (setup.config.optimizer.clip > 0 || setup.mesh.ranks(base::kSameSequences) > 1) return plan;
  plan.when = UpdatePlan::When::as_reduced;
  if (!complete_when_updated(setup.weights)) return plan;

  // The units that the next step gathers first are reduced last, and are updated in that order. The unit that is
  // reduced just before them is moved to the end: the next step's first gathers run while it is updated.
  const auto visits = model::visits(setup.config.model, setup.weights.recipe, setup.layout.micro_batches);
  const auto first = std::stable_partition(plan.order.begin(), plan.order.end(),
                                           [&](int unit) { return !gathered_first(setup, visits, unit); });
  if (first == plan.order.begin()) return plan;  // every unit is gathered first: none is left to be updated meanwhile
  std::rotate(first - 1, first, plan.order.end());
  plan.gather_before = plan.order.size() - 1;
  return plan;
}

}  // namespace shard8::train
