// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "fsdp/gather_buffers.hpp"

#include <functional>

#include "tensor/overlay.hpp"

namespace shard8::fsdp {

using tensor::Tensor;

namespace {

/// What a gather would transfer if there were several shards: the stored shards or the master.
CopyTensors in_place(const UnitShards& shards, std::size_t p, std::optional<Pass> only) {
  CopyTensors tensors = shards.stored[p];
  if (tensors.forward.empty()) {
    tensors.forward = {shards.master[p]};
    if (shards.pieces[p].travel.two()) tensors.backward = tensors.forward;
  }
  if (only && shards.pieces[p].travel.two()) (*only == Pass::forward ? tensors.backward : tensors.forward).clear();
  return tensors;
}

ParameterPlace lay_out(const UnitShards& shards, std::size_t p, std::optional<Pass> only, tensor::Arena& arena) {
  const ParameterPieces& pieces = shards.pieces[p];
  const ShardLayout& layout = shards.layouts[p];
  ParameterPlace place;
  place.travel = pieces.source == Source::in_place ? in_place(shards, p, only)
                                                   : allocate(pieces.travel, only, layout.padded_rows(), arena);
  place.compute = pieces.converted() ? allocate(pieces.compute, only, layout.rows, arena)
                                     : slice(place.travel, pieces.travel, 0, layout.rows);
  return place;
}

std::vector<Tensor> view(const std::vector<Tensor>& tensors, bool vector) {
  std::vector<Tensor> views;
  for (const Tensor& t : tensors) views.push_back(vector ? t.reshaped({t.count()}) : t);
  return views;
}

Gathered gathered(const CopyTensors& compute, bool two, bool vector) {
  Gathered parameter{view(compute.forward, vector), view(compute.backward, vector)};
  if (!two) parameter.backward = parameter.forward;
  return parameter;
}

UnitPlace lay_out(const UnitShape& unit, const UnitShards& shards, std::optional<Pass> only, bool transfers,
                  tensor::Arena& arena) {
  UnitPlace place;
  for (std::size_t p = 0; p < unit.parameters.size(); ++p) {
    const ParameterPlace& parameter = place.parameters.emplace_back(lay_out(shards, p, only, arena));
    place.gathered.push_back(gathered(parameter.compute, shards.pieces[p].two(), unit.parameters[p].vector));
    if (!transfers) continue;
    const bool stored = shards.pieces[p].source == Source::stored;
    const auto travel = [&](const std::vector<Tensor>& copy, const std::vector<Tensor>& shard) {
      for (std::size_t i = 0; i < copy.size(); ++i) {
        if (copy[i].count() == 0) continue;
        place.travelling.push_back(copy[i]);
        place.own.push_back(stored ? shard[i] : Tensor{});
      }
    };
    travel(parameter.travel.forward, shards.stored[p].forward);
    travel(parameter.travel.backward, shards.stored[p].backward);
  }
  return place;
}

}  // namespace

void MoveViews::operator()(Tensor& view) const {
  const std::less<const std::byte*> before;
  if (view.data == nullptr || before(view.data, from_.data) || !before(view.data, from_.data + from_.bytes())) return;
  view.data = to_.data + (view.data - from_.data);
}

void MoveViews::operator()(std::vector<Tensor>& views) const {
  for (Tensor& view : views) (*this)(view);
}

void MoveViews::operator()(CopyTensors& tensors) const {
  (*this)(tensors.forward);
  (*this)(tensors.backward);
}

void MoveViews::operator()(Gathered& parameter) const {
  (*this)(parameter.forward);
  (*this)(parameter.backward);
}

GatherBuffers::GatherBuffers(const std::vector<UnitShape>& units, const std::vector<UnitShards>& shards,
                             const Options& options, tensor::Arena& arena) {
  const int n = static_cast<int>(units.size());
  std::vector<int> rotating, with_own_slot, single_use;
  for (int u = 0; u < n; ++u) {
    const bool resharded = options.reshard_after_forward && shards[index(u)].gathers();
    const bool rotates = resharded && units[index(u)].rotating;
    // With several micro-batches a unit that shared its slot would be gathered in each of them.
    const bool shares_slot = resharded && units[index(u)].single_use && !options.accumulate;
    (rotates ? rotating : shares_slot ? single_use : with_own_slot).push_back(u);
    copies_.push_back({u, {}});
    backward_copy_.push_back(u);
  }
  for (int u = 0; u < n; ++u) {
    if (std::count(rotating.begin(), rotating.end(), u) == 0 || !shards[index(u)].two_copies()) continue;
    copies_[index(u)].only = Pass::forward;
    backward_copy_[index(u)] = copies();
    rotating.push_back(copies());
    copies_.push_back({u, Pass::backward});
  }
  places_.resize(copies_.size());
  const auto add_slot = [&](const std::vector<int>& copies) {
    const std::size_t begin = arena.mark();
    tensor::Overlay memory(arena);
    for (const int c : copies) {
      const auto& [unit, only] = copies_[index(c)];
      memory.add([&, unit = unit, only = only] {
        places_[index(c)] = lay_out(units[index(unit)], shards[index(unit)], only,
                                    options.place.mesh().ranks(units[index(unit)].sharing().sharded) > 1, arena);
      });
    }
    memory.close();
    slots_.push_back(arena.since(begin));
  };
  own_slot_.assign(copies_.size(), -1);
  rotating_slots_ = std::min(options.prefetch + 1, static_cast<int>(rotating.size()));
  if (rotating_slots_ > 0) add_slot(rotating);
  while (slots() < rotating_slots_) slots_.push_back(arena.allocate(slots_.front().shape, slots_.front().dtype));
  for (const int c : with_own_slot) {
    own_slot_[index(c)] = slots();
    add_slot({c});
  }
  if (single_use.empty()) return;
  for (const int c : single_use) own_slot_[index(c)] = slots();
  add_slot(single_use);
}

UnitPlace GatherBuffers::place(int slot, int copy) const {
  UnitPlace place = first_place(copy);
  const MoveViews move = moving(first_slot(copy), slot);
  for (auto& [travel, compute] : place.parameters) {
    move(travel);
    move(compute);
  }
  for (Gathered& parameter : place.gathered) move(parameter);
  move(place.travelling);
  return place;
}

int GatherBuffers::copy_of(int unit, Pass pass) const {
  return pass == Pass::forward ? unit : backward_copy_[index(unit)];
}

std::vector<int> GatherBuffers::copies_of(std::span<const Visit> visits, std::vector<int> copies) const {
  copies.clear();
  for (const Visit& visit : visits) copies.push_back(copy_of(visit.unit, visit.pass));
  return copies;
}

}  // namespace shard8::fsdp
