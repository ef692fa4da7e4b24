// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "model/unit_operations.hpp"

#include <algorithm>
#include <utility>

#include "fsdp/gradient_store.hpp"
#include "fsdp/weight_store.hpp"
#include "kernels/elementwise.hpp"

namespace shard8::model {

using fsdp::CopyTensors;
using profile::Collective;
using tensor::DType;
using tensor::Tensor;

namespace {

std::size_t index(int i) { return static_cast<std::size_t>(i); }

std::uint64_t bytes_of(const std::vector<Tensor>& tensors) {
  std::uint64_t bytes = 0;
  for (const Tensor& t : tensors) bytes += t.bytes();
  return bytes;
}

}  // namespace

WeightOperations::WeightOperations(OperationWriter& out, const fsdp::UnitBuffers& buffers,
                                   const std::vector<UnitSpec>& units, const WeightFormat& format)
    : out_(out),
      buffers_(buffers),
      units_(units),
      format_(format),
      schedule_(fsdp::make_schedule(buffers)),
      slots_(index(buffers.gather().slots())),
      held_(buffers.units().size(), -1) {}

void WeightOperations::begin_step(std::span<const fsdp::Visit> visits, bool begun) {
  schedule_.begin_step(buffers_.gather().copies_of(visits));
  if (!begun) return;
  int number = 0;  // counts the gathers that the step before has issued
  for (const auto& gather : schedule_.ahead()) {
    const bool travels = !buffers_.gather().travelling(gather.copy).empty();
    slots_[index(gather.slot)] = {false, travels ? std::optional(-1 - number++) : std::nullopt};
  }
}

void WeightOperations::gather_ahead() {
  for (const auto& gather : schedule_.ahead()) start(gather);
}

void WeightOperations::acquire(int unit, fsdp::Pass pass) {
  const int copy = buffers_.gather().copy_of(unit, pass);
  for (const auto& gather : schedule_.acquire(copy)) start(gather);
  held_[index(unit)] = copy;
  finish({copy, schedule_.slot_of(copy)});
}

void WeightOperations::release(int unit) { schedule_.release(std::exchange(held_[index(unit)], -1)); }

/// The casts of a unit's parameters for a gather: one kernel for each parameter in FP8, and one kernel for up to
/// kernels::kCastsAtOnce of the other parameters.
class WeightOperations::Casts {
 public:
  Casts(OperationWriter& out, const WeightFormat& format) : out_(out), format_(format) {}
  ~Casts() { write(); }
  Casts(const Casts&) = delete;
  Casts& operator=(const Casts&) = delete;

  void quantize(const CopyTensors& to, std::int64_t rows, std::int64_t cols, DType from) {
    out_.kernel({format_.recipe.per_tensor() ? "quantize" : "quantize_blocks", rows, cols, from,
                 format_.recipe.dtype(fp8::Role::weight)},
                static_cast<std::uint64_t>(rows * cols) * tensor::size_of(from),
                bytes_of(to.forward) + bytes_of(to.backward));
  }
  void cast(const Tensor& to, DType from) {
    if (count_ == kernels::kCastsAtOnce) write();
    ++count_;
    elements_ += to.count();
    read_ += static_cast<std::uint64_t>(to.count()) * tensor::size_of(from);
    written_ += to.bytes();
    from_ = from;
    to_ = to.dtype;
  }

 private:
  void write() {
    if (count_ > 0) out_.kernel({"cast", elements_, 1, from_, to_}, read_, written_);
    count_ = 0;
    elements_ = 0;
    read_ = written_ = 0;
  }
  OperationWriter& out_;
  const WeightFormat& format_;
  std::size_t count_ = 0;
  std::int64_t elements_ = 0;
  std::uint64_t read_ = 0, written_ = 0;
  DType from_ = DType::fp32, to_ = DType::fp32;
};

void WeightOperations::start(const fsdp::GatherSchedule::Start& start) {
  const fsdp::GatherBuffers& gather = buffers_.gather();
  const int unit = gather.unit_of(start.copy);
  const fsdp::UnitPlace& place = gather.place(start.slot, start.copy);
  const DType master = fsdp::master_dtype(buffers_.options());
  const Site site = std::exchange(out_.site, Site{unit, {}});
  {
    Casts casts(out_, format_);
    for (int p = 0; p < static_cast<int>(place.parameters.size()); ++p) {
      const fsdp::ParameterPieces& pieces = buffers_.pieces(unit, p);
      if (pieces.source != fsdp::Source::hook) continue;
      const ParameterSpec& parameter = units_[index(unit)].parameters[index(p)];
      const std::int64_t rows = buffers_.layout(unit, p).rows_per_shard;
      const CopyTensors own = slice(place.parameters[index(p)].travel, pieces.travel, 0, rows);
      if (format_.gather_fp8 && format_.site(units_[index(unit)], parameter).on())
        casts.quantize(own, rows, parameter.cols, master);
      else
        casts.cast(own.forward.front(), master);
    }
  }
  Slot& slot = slots_[index(start.slot)];
  slot = {};
  Operation::Collective call{Collective::all_gather, buffers_.sharing(unit).sharded, buffers_.shard_ranks(unit)};
  for (const Tensor& t : place.travelling) call.parts.push_back({t.dtype, t.bytes()});
  call.items = static_cast<int>(place.travelling.size());
  if (!call.parts.empty()) slot.gather = out_.collective(call, Stream::gather);
  out_.site = site;
}

void WeightOperations::finish(const fsdp::GatherSchedule::Start& gather) {
  Slot& slot = slots_[index(gather.slot)];
  if (std::exchange(slot.ready, true)) return;
  out_.wait(std::exchange(slot.gather, {}));
  const int unit = buffers_.gather().unit_of(gather.copy);
  const fsdp::UnitPlace& place = buffers_.gather().place(gather.slot, gather.copy);
  const Site site = std::exchange(out_.site, Site{unit, {}});
  {
    Casts casts(out_, format_);
    for (int p = 0; p < static_cast<int>(place.parameters.size()); ++p) {
      const fsdp::ParameterPieces& pieces = buffers_.pieces(unit, p);
      if (!pieces.converted()) continue;
      const ParameterSpec& parameter = units_[index(unit)].parameters[index(p)];
      const CopyTensors& compute = place.parameters[index(p)].compute;
      const DType travelled = pieces.travel.forward.front().dtype;
      if (format_.site(units_[index(unit)], parameter).on())
        casts.quantize(compute, parameter.rows, parameter.cols, travelled);
      else
        casts.cast(compute.forward.front(), travelled);
    }
  }
  out_.site = site;
}

GradientOperations::GradientOperations(OperationWriter& out, const fsdp::UnitBuffers& buffers)
    : out_(out), buffers_(buffers), slots_(index(buffers.gradient_slots())) {}

int GradientOperations::slot_of(int unit) {
  if (const int own = buffers_.own_gradient_slot(unit); own >= 0) return own;
  for (int s = 0; s < buffers_.rotating_gradient_slots(); ++s)
    if (slots_[index(s)].unit == unit) return s;
  return std::exchange(next_rotating_, (next_rotating_ + 1) % buffers_.rotating_gradient_slots());
}

void GradientOperations::begin(int unit, bool first_micro_batch) {
  const int s = slot_of(unit);
  Slot& slot = slots_[index(s)];
  if (slot.unit >= 0 && slot.unit != unit) complete(s);
  slot.unit = unit;
  if (!first_micro_batch) return;
  const auto& parameters = buffers_.units()[index(unit)].parameters;
  const Site site = std::exchange(out_.site, Site{unit, {}});
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    const fsdp::ShardLayout& layout = buffers_.layout(unit, static_cast<int>(p));
    const std::int64_t kept = parameters[p].gradient_overwritten ? layout.rows : 0;
    fill_zero(layout.padded_rows() - kept, parameters[p].cols);
  }
  out_.site = site;
}

void GradientOperations::fill_zero(std::int64_t rows, std::int64_t cols) {
  out_.kernel({"fill_zero", rows, cols, DType::fp32, DType::fp32}, 0,
              static_cast<std::uint64_t>(rows * cols) * sizeof(float));
}

void GradientOperations::cast(const Tensor& to, DType from) {
  out_.kernel({"cast", to.rows(), to.cols(), from, to.dtype},
              static_cast<std::uint64_t>(to.count()) * tensor::size_of(from), to.bytes());
}

std::optional<int> GradientOperations::call(int unit, Collective op, const std::vector<Tensor>& tensors) {
  const base::Sharing sharing = buffers_.sharing(unit);
  const Group group = op == Collective::reduce_scatter ? sharing.sharded : sharing.summed();
  Operation::Collective c{op, group, buffers_.options().place.mesh().ranks(group)};
  for (const Tensor& t : tensors) c.parts.push_back({t.dtype, t.bytes()});
  c.items = static_cast<int>(tensors.size());
  return out_.collective(c, Stream::reduce);
}

void GradientOperations::reduce(int unit) {
  if (!buffers_.reduces(unit)) return;
  const int s = slot_of(unit);
  while (in_flight_.size() >= fsdp::kReductionsInFlight) complete(in_flight_.front());
  in_flight_.push_back(s);
  const fsdp::GradientPlace& memory = buffers_.gradient_place(s, unit);
  const Site site = std::exchange(out_.site, Site{unit, {}});
  for (const Tensor& staged : memory.staged) cast(staged, DType::fp32);
  if (buffers_.shard_ranks(unit) == 1)
    slots_[index(s)].replica_sum = call(unit, Collective::all_reduce, reduced(s));
  else
    slots_[index(s)].scatter =
        call(unit, Collective::reduce_scatter, memory.staged.empty() ? memory.whole : memory.staged);
  out_.site = site;
}

const std::vector<Tensor>& GradientOperations::reduced(int slot) const {
  const int unit = slots_[index(slot)].unit;
  const fsdp::GradientPlace& memory = buffers_.gradient_place(slot, unit);
  return memory.staged.empty() ? buffers_.gradient(unit) : memory.staged_shard;
}

void GradientOperations::complete(int s) {
  std::erase(in_flight_, s);
  Slot& slot = slots_[index(s)];
  const Site site = std::exchange(out_.site, Site{slot.unit, {}});
  const profile::Phase phase = std::exchange(out_.phase, profile::Phase::reduce_wait);
  const bool in_fp32 = buffers_.options().reduce == DType::fp32;
  out_.wait(std::exchange(slot.scatter, {}));
  if (buffers_.shard_ranks(slot.unit) > 1 && buffers_.sum_ranks(slot.unit) > 1) {
    while (replica_sums_.size() >= fsdp::kReductionsInFlight) {
      out_.wait(replica_sums_.front());
      replica_sums_.erase(replica_sums_.begin());
    }
    slot.replica_sum = call(slot.unit, Collective::all_reduce, reduced(s));
    if (in_fp32) replica_sums_.push_back(std::exchange(slot.replica_sum, {}));
  }
  out_.wait(std::exchange(slot.replica_sum, {}));
  if (!in_fp32)
    for (const Tensor& shard : buffers_.gradient(slot.unit)) cast(shard, buffers_.options().reduce);
  slot.unit = -1;
  out_.site = site;
  out_.phase = phase;
}

void GradientOperations::finish_replica_sums() {
  for (const auto& sum : replica_sums_) out_.wait(sum);
  replica_sums_.clear();
}

void GradientOperations::finish(int unit) {
  for (const int s : in_flight_) {
    if (slots_[index(s)].unit != unit) continue;
    complete(s);
    break;
  }
  finish_replica_sums();
}

void GradientOperations::finish() {
  while (!in_flight_.empty()) complete(in_flight_.front());
  for (Slot& slot : slots_) slot.unit = -1;
  finish_replica_sums();
}

}  // namespace shard8::model
