// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "fsdp/gradient_store.hpp"

#include <algorithm>
#include <utility>

#include "kernels/elementwise.hpp"

namespace shard8::fsdp {

using tensor::Tensor;

GradientStore::GradientStore(operation::Executor& executor, const UnitBuffers& buffers, const comm::Mesh& mesh)
    : executor_(executor),
      buffers_(buffers),
      mesh_(mesh),
      slots_(static_cast<std::size_t>(buffers.gradients().slots())) {
  for (int u = 0; u < static_cast<int>(buffers.units().size()); ++u) places_.push_back(make_place(u));
}

GradientStore::Place GradientStore::make_place(int unit) const {
  const GradientSlots& memory = buffers_.gradients();
  Place made;
  made.slot = memory.first_slot(unit);
  made.forms = memory.first_place(unit);
  const auto& parameters = buffers_.units()[static_cast<std::size_t>(unit)].parameters;
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    const ShardLayout& layout = buffers_.weights(unit)[p].layout;
    const Tensor& padded = made.forms.whole[p];
    const Tensor rows = padded.slice(0, layout.rows);
    made.whole.push_back(parameters[p].vector ? rows.reshaped({layout.rows}) : rows);
    const std::int64_t overwritten = parameters[p].gradient_overwritten ? layout.rows : 0;
    const Tensor cleared = padded.slice(overwritten, layout.padded_rows() - overwritten);
    if (cleared.count() > 0) made.cleared.push_back(cleared);
    made.shards.push_back(buffers_.weights(unit)[p].gradient);
  }
  return made;
}

int GradientStore::slot_of(int unit) {
  const GradientSlots& memory = buffers_.gradients();
  if (const int own = memory.own_slot(unit); own >= 0) return own;
  for (int s = 0; s < memory.rotating_slots(); ++s)
    if (slots_[static_cast<std::size_t>(s)].unit == unit) return s;
  const int s = next_rotating_;
  next_rotating_ = (next_rotating_ + 1) % memory.rotating_slots();
  return s;
}

GradientStore::Gradients GradientStore::begin(int unit) {
  const int s = slot_of(unit);
  if (std::find(in_flight_.begin(), in_flight_.end(), s) != in_flight_.end()) complete(s);
  Slot& slot = slots_[static_cast<std::size_t>(s)];
  SHARD8_REQUIRE(slot.unit < 0 || slot.unit == unit,
                 "gradients of unit {} need the slot of unit {}, which was not reduced", unit, slot.unit);
  Place& place = places_[static_cast<std::size_t>(unit)];
  buffers_.gradients().move(place.slot, s, [&](const MoveViews& move) {
    move(place.forms);
    move(place.whole);
    move(place.cleared);
  });
  slot.unit = unit;
  if (std::exchange(place.begun, true)) return {place.whole, true};
  const operation::At at(executor_, unit);
  for (const Tensor& cleared : place.cleared)
    executor_.issue(
        operation::Kernel{"fill_zero", cleared.rows(), cleared.cols(), cleared.dtype, cleared.dtype}.writes(cleared),
        [&](const tensor::Exec& exec) { kernels::fill_zero(exec, cleared); });
  return {place.whole, false};
}

void GradientStore::reduce(int unit, bool last_micro_batch) {
  if (!last_micro_batch && !buffers_.reduces_each(unit)) return;
  Place& place = places_[static_cast<std::size_t>(unit)];
  place.begun = false;
  if (!buffers_.reduces(unit)) return;
  const int s = slot_of(unit);
  Slot& slot = slots_[static_cast<std::size_t>(s)];
  SHARD8_REQUIRE(slot.unit == unit && !slot.scatter.under_way.active(),
                 "gradients of unit {} are not ready to be reduced", unit);
  while (in_flight_.size() >= kReductionsInFlight) complete(in_flight_.front());
  in_flight_.push_back(s);
  slot.first = !std::exchange(place.summing, !last_micro_batch);
  slot.last = last_micro_batch;
  const operation::At at(executor_, unit);
  const auto& [whole, sent, staged] = place.forms;
  for (std::size_t p = 0; p < sent.size() && !in_fp32(); ++p) cast(sent[p], whole[p]);
  if (buffers_.shard_ranks(unit) == 1) {
    slot.replica_sum = sum(unit, staged);
    return;
  }
  const std::vector<Tensor>& received = in_fp32() && slot.first ? place.shards : staged;
  items_.clear();
  for (std::size_t p = 0; p < sent.size(); ++p) items_.push_back({received[p], sent[p]});
  const base::AxisSet sharded = buffers_.sharing(unit).sharded;
  slot.scatter = executor_.issue({.op = profile::Collective::reduce_scatter,
                                  .group = sharded,
                                  .ranks = buffers_.shard_ranks(unit),
                                  .stream = operation::Stream::reduce,
                                  .tensors = sent,
                                  .own = received},
                                 [&] { return mesh_.group(sharded).reduce_scatter(items_); });
}

void GradientStore::cast(const Tensor& to, const Tensor& from) {
  executor_.issue(operation::Kernel{"cast", to.rows(), to.cols(), from.dtype, to.dtype}.reads(from).writes(to),
                  [&](const tensor::Exec& exec) { kernels::cast(exec, to, from); });
}

void GradientStore::add(const Tensor& sum, const Tensor& from) {
  executor_.issue(
      operation::Kernel{"add_gradients", sum.rows(), sum.cols(), from.dtype, sum.dtype}.reads(from).reads(sum).writes(
          sum),
      [&](const tensor::Exec& exec) { kernels::add_gradients(exec, sum, from); });
}

operation::Issued<comm::Request> GradientStore::sum(int unit, const std::vector<Tensor>& shards) {
  const base::AxisSet summed = buffers_.sharing(unit).summed();
  return executor_.issue({.op = profile::Collective::all_reduce,
                          .group = summed,
                          .ranks = buffers_.sum_ranks(unit),
                          .stream = operation::Stream::reduce,
                          .tensors = shards},
                         [&] { return mesh_.group(summed).all_reduce(shards, comm::Communicator::Reduce::sum); });
}

/// Waits for the reduce-scatter of the unit in slot `s`, adds what it brought, reduces over the replicas if it is the
/// step's last one, and frees the slot. A sum over replicas in fp32 does not use the memory of the slot, so it may
/// still be in flight at the end.
void GradientStore::complete(int s) {
  std::erase(in_flight_, s);
  Slot& slot = slots_[static_cast<std::size_t>(s)];
  const int unit = slot.unit;
  const operation::At at(executor_, unit);
  auto scope = executor_.timer().phase(profile::Phase::reduce_wait, "wait");
  executor_.wait(slot.scatter);
  const std::vector<Tensor>& shards = place(unit).shards;
  const std::vector<Tensor>& received = place(unit).forms.received;
  const bool each = buffers_.reduces_each(unit);
  if (each) add_received(unit, slot.first);
  bool staged = !each && !in_fp32();  // `received` has the gradients of the step
  if (slot.last && buffers_.shard_ranks(unit) > 1 && buffers_.sum_ranks(unit) > 1) {
    while (replica_sums_.size() >= kReductionsInFlight) {
      executor_.wait(replica_sums_.front());
      replica_sums_.erase(replica_sums_.begin());
    }
    for (std::size_t p = 0; p < shards.size() && each && !in_fp32(); ++p) cast(received[p], shards[p]);
    staged = !in_fp32();
    slot.replica_sum = sum(unit, staged ? received : shards);
    if (!staged) replica_sums_.push_back(std::exchange(slot.replica_sum, {}));
  }
  executor_.wait(slot.replica_sum);
  for (std::size_t p = 0; p < shards.size() && staged; ++p) cast(shards[p], received[p]);
  slot.unit = -1;
}

void GradientStore::add_received(int unit, bool first) {
  if (first && in_fp32()) return;  // received in the gradient shards
  auto phase = executor_.timer().phase(profile::Phase::backward, "add gradients");
  const std::vector<Tensor>& received = place(unit).forms.received;
  for (std::size_t p = 0; p < received.size(); ++p) {
    const Tensor& shard = place(unit).shards[p];
    first ? cast(shard, received[p]) : add(shard, received[p]);
  }
}

void GradientStore::finish_replica_sums() {
  if (replica_sums_.empty()) return;
  auto scope = executor_.timer().phase(profile::Phase::reduce_wait, "wait for replicas");
  for (auto& sum : replica_sums_) executor_.wait(sum);
  replica_sums_.clear();
}

void GradientStore::finish(int unit) {
  for (const int s : in_flight_) {
    if (slots_[static_cast<std::size_t>(s)].unit != unit) continue;
    complete(s);
    break;
  }
  finish_replica_sums();
}

void GradientStore::finish() {
  while (!in_flight_.empty()) complete(in_flight_.front());
  for (Slot& slot : slots_) slot.unit = -1;
  finish_replica_sums();
}

}  // namespace shard8::fsdp
