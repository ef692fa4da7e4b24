// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "fsdp/unit_buffers.hpp"

#include "base/error.hpp"

namespace shard8::fsdp {

using tensor::MemoryKind;
using tensor::Tensor;
using WeightsOfUnits = std::vector<std::vector<WeightForms>>;

void MoveViews::operator()(Tensor& view) const {
  const std::less<const std::byte*> before;
  if (view.data == nullptr || before(view.data, begin_) || !before(view.data, end_)) return;
  view.data = to_ + (view.data - begin_);
}

void MoveViews::operator()(Copies& copies) const {
  for (tensor::Operand* copy : {&copies.forward, &copies.backward}) {
    (*this)(copy->data);
    (*this)(copy->scale_inv);
  }
}

void MoveViews::operator()(GatheredCopy& copy) const {
  (*this)(copy.communicated);
  (*this)(copy.read);
  (*this)(copy.transferred);
}

void MoveViews::operator()(GradientForms& gradients) const {
  (*this)(gradients.whole);
  (*this)(gradients.sent);
  (*this)(gradients.received);
}

GatherSlots::GatherSlots(const std::vector<UnitShape>& units, const WeightsOfUnits& weights, const Options& options,
                         tensor::Arena& arena) {
  const auto any = [&](int unit, const auto& holds) {
    return std::any_of(weights[index(unit)].begin(), weights[index(unit)].end(), holds);
  };
  const int n = static_cast<int>(units.size());
  std::vector<int> rotating, own, single_use;
  for (int u = 0; u < n; ++u) {
    const bool resharded = options.reshard_after_forward && any(u, [](const WeightForms& w) { return w.gathers(); });
    const bool rotates = resharded && units[index(u)].rotating;
    // With several micro-batches a unit that shared its slot would be gathered in each of them.
    const bool shares_slot = resharded && units[index(u)].single_use && !options.accumulate;
    (rotates ? rotating : shares_slot ? single_use : own).push_back(u);
    copies_.push_back({u, {}});
    backward_copy_.push_back(u);
  }
  for (std::size_t i = 0, units_rotating = rotating.size(); i < units_rotating; ++i) {
    const int u = rotating[i];
    if (!any(u, [](const WeightForms& w) { return w.read.two(); })) continue;
    copies_[index(u)].only = Pass::forward;
    backward_copy_[index(u)] = copies();
    rotating.push_back(copies());
    std::optional<Pass> only = Pass::backward;
    if (units[index(u)].backward_reads_both) only.reset();
    copies_.push_back({u, only});
  }
  add(copies(), rotating, options.prefetch + 1, own, single_use, arena,
      [&](int copy) { return GatheredCopy::make(weights[index(unit_of(copy))], copies_[index(copy)].only, arena); });
}

std::vector<int> GatherSlots::copies_of(std::span<const Visit> visits, std::vector<int> copies) const {
  copies.clear();
  for (const Visit& visit : visits) copies.push_back(copy_of(visit.unit, visit.pass));
  return copies;
}

GradientSlots::GradientSlots(const std::vector<UnitShape>& units, const WeightsOfUnits& weights, const Options& options,
                             tensor::Arena& arena) {
  constexpr int kRotating = 2;  // gradients of one unit are summed while those of the unit before are reduced
  const base::Extents& mesh = options.place.mesh();
  std::vector<int> rotating, own;
  for (int u = 0; u < static_cast<int>(units.size()); ++u) {
    const bool summed_once = units[index(u)].rotating || units[index(u)].single_use;
    const base::Sharing sharing = units[index(u)].sharing();
    const bool rotates =
        summed_once && mesh.ranks(sharing.sharded) > 1 && (!options.accumulate || options.reduces_each(sharing));
    (rotates ? rotating : own).push_back(u);
  }
  add(static_cast<int>(units.size()), rotating, kRotating, own, {}, arena, [&](int u) {
    const base::Sharing sharing = units[index(u)].sharing();
    const bool reduces = mesh.ranks(sharing.sharded | sharing.summed()) > 1;
    const GradientForms::Reduction reduction{.staged = reduces && options.reduce != tensor::DType::fp32,
                                             .summed = options.reduces_each(sharing),
                                             .dtype = options.reduce};
    return GradientForms::make(weights[index(u)], reduction, arena);
  });
}

namespace {

WeightsOfUnits make_weights(const std::vector<UnitShape>& units, const Options& options, tensor::Arena& arena) {
  WeightsOfUnits weights;
  for (const UnitShape& unit : units) {
    const base::Sharing sharing = unit.sharing();
    auto& of_unit = weights.emplace_back();
    of_unit.reserve(unit.parameters.size());
    for (const ParameterShape& p : unit.parameters) {
      SHARD8_REQUIRE(p.sharing.sharded == sharing.sharded && p.sharing.summed() == sharing.summed(),
                     "unit '{}': '{}' is sharded over '{}' and summed over '{}', '{}' over '{}' and '{}'", unit.name,
                     p.name, name_of(p.sharing.sharded), name_of(p.sharing.summed()), unit.parameters.front().name,
                     name_of(sharing.sharded), name_of(sharing.summed()));
      of_unit.push_back(WeightForms::make(p, options, arena));
    }
  }
  return weights;
}

/// Allocates the gradient shards of a unit.
void add_gradients(std::vector<WeightForms>& unit, tensor::Arena& arena) {
  for (WeightForms& w : unit) w.gradient = w.allocate(w.layout.rows_per_shard, tensor::DType::fp32, arena);
}

/// As add_gradients() for each unit, but in lent memory where they fit. With one shard, and if each micro-batch is
/// reduced, gradients are summed in the shards, while the caller still uses the lent memory.
WeightsOfUnits with_gradients(WeightsOfUnits weights, const std::vector<UnitShape>& units, const Options& options,
                              const std::vector<Tensor>& lent, tensor::Arena& arena) {
  for (std::size_t u = 0; u < weights.size(); ++u) {
    std::vector<WeightForms>& unit = weights[u];
    auto needed = tensor::Arena::measure("needed", arena.kind());
    add_gradients(unit, needed);
    const bool sharded = !unit.empty() && unit.front().layout.shards > 1;
    const bool summed_before = sharded && !options.reduces_each(units[u].sharing());
    if (summed_before && u < lent.size() && needed.used() <= lent[u].bytes()) {
      tensor::Arena in_lent("lent", arena.kind(), lent[u].data, lent[u].bytes());
      add_gradients(unit, in_lent);
    } else {
      add_gradients(unit, arena);
    }
  }
  return weights;
}

}  // namespace

UnitBuffers::UnitBuffers(std::vector<UnitShape> units, const Options& options, tensor::ArenaSet& arenas,
                         const std::vector<Tensor>& lent)
    : units_(std::move(units)),
      options_(options),
      weights_(with_gradients(make_weights(units_, options_, arenas[MemoryKind::weights]), units_, options_, lent,
                              arenas[MemoryKind::gradients])),
      gather_(units_, weights_, options_, arenas[MemoryKind::gathered]),
      gradients_(units_, weights_, options_, arenas[MemoryKind::gradients]) {}

}  // namespace shard8::fsdp
