// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "fsdp/weight_forms.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace shard8::fsdp {

using tensor::DType;
using tensor::Operand;
using tensor::Scaling;
using tensor::Tensor;

ShardLayout ShardLayout::make(std::int64_t rows, int shards, std::int64_t granularity) {
  const std::int64_t even = (rows + shards - 1) / shards;
  return {rows, (even + granularity - 1) / granularity * granularity, shards};
}

std::int64_t ShardLayout::owned_rows(int rank) const {
  return std::clamp(rows - first_row(rank), std::int64_t{0}, rows_per_shard);
}

const Operand& GatheredWeight::copy_for(Pass pass) const {
  const bool in_forward = pass == Pass::forward;
  const Operand& copy = in_forward ? forward : backward;
  const bool current = stamp.generation == nullptr || stamp.current();
  SHARD8_REQUIRE(!copy.empty() && current, "the weight {} read in {} is {}", tensor::to_string(copy.data.shape),
                 in_forward ? "forward" : "backward", copy.empty() ? "not gathered for it" : "of another pass or step");
  return copy;
}

namespace {

Formats plain(DType dtype) { return {{dtype}, {dtype}}; }

void require_whole_blocks(const ParameterShape& p, const Format& format) {
  const std::int64_t block = tensor::block_rows(format.scaling);
  SHARD8_REQUIRE(p.rows % block == 0, "parameter '{}': {} rows are not whole blocks of {} rows ({} % {} = {})", p.name,
                 p.rows, block, p.rows, block, p.rows % block);
  SHARD8_REQUIRE(p.granularity % block == 0,
                 "parameter '{}': shards of multiples of {} rows would cut blocks of {} rows ({} % {} = {})", p.name,
                 p.granularity, block, p.granularity, block, p.granularity % block);
}

/// The copies of `formats` with `rows` rows of the parameter. If each pass has a copy, `only` selects one of them.
Copies allocate(const WeightForms& weight, const Formats& formats, std::optional<Pass> only, std::int64_t rows,
                tensor::Arena& arena) {
  const auto copy = [&](const Format& format) {
    const Scaling scaling = format.scaling;
    const Tensor values = weight.allocate(rows, format.dtype, arena);
    if (scaling == Scaling::none) return Operand(values);
    if (scaling == Scaling::tensor) return Operand(values, weight.scale_inv, scaling);
    const auto scales = arena.allocate(tensor::scale_shape(scaling, rows, weight.cols), tensor::scale_dtype(scaling));
    return Operand(values, scales, scaling);
  };
  Copies copies;
  if (!formats.two() || only != Pass::backward) copies.forward = copy(formats.forward);
  if (!formats.two()) copies.backward = copies.forward;
  if (formats.two() && only != Pass::forward) copies.backward = copy(formats.backward);
  return copies;
}

/// What a gather would transfer if there were several shards: the stored shard or the master.
Copies in_place(const WeightForms& weight, std::optional<Pass> only) {
  Copies copies = weight.stored.empty() ? Copies{weight.master, weight.master} : weight.stored;
  if (only && copies.two()) (*only == Pass::forward ? copies.backward : copies.forward) = {};
  return copies;
}

/// See WeightForms::groups.
std::vector<GroupRows> groups_of(const ParameterShape& parameter, const ShardLayout& layout, std::int64_t first) {
  const std::int64_t rows = layout.rows_per_shard;
  std::vector<GroupRows> parts;
  if (parameter.groups == 1) return {{0, 0, rows}};
  const std::int64_t of_group = parameter.rows / parameter.groups, end = std::min(first + rows, parameter.rows);
  for (std::int64_t row = first; row < end; row += parts.back().rows) {
    const std::int64_t group = row / of_group;
    parts.push_back({group, row - first, std::min((group + 1) * of_group, end) - row});
  }
  if (parts.empty()) parts.push_back({parameter.groups - 1, 0, 0});
  parts.back().rows = rows - parts.back().first;
  return parts;
}

}  // namespace

Operand WeightForms::part_of(const Operand& copy, const GroupRows& part) {
  Operand one = copy.slice(part.first, part.rows);
  if (copy.scaling == Scaling::tensor) one.scale_inv = copy.scale_inv.slice(part.group, 1);
  return one;
}

Tensor WeightForms::allocate(std::int64_t rows, DType dtype, tensor::Arena& arena) const {
  return arena.allocate({rows, cols}, dtype);
}

Copies slice(const Copies& copies, std::int64_t first, std::int64_t rows) {
  const auto part = [&](const Operand& copy) { return copy.empty() ? copy : copy.slice(first, rows); };
  return {part(copies.forward), part(copies.backward)};
}

WeightForms WeightForms::make(const ParameterShape& parameter, const Options& options, tensor::Arena& weights) {
  const int shards = options.place.mesh().ranks(parameter.sharing.sharded);
  WeightForms w;
  w.cols = parameter.cols;
  w.vector = parameter.vector;
  w.sharing = parameter.sharing;
  w.layout = ShardLayout::make(parameter.rows, shards, parameter.granularity);
  w.shard = options.place.rank(parameter.sharing.sharded);
  w.scale_inv = parameter.scale_inv;
  w.groups = groups_of(parameter, w.layout, w.first_row());
  w.read = parameter.formats.value_or(plain(options.compute));
  // With one shard nothing is transferred, so the hook writes the dtype that kernels read.
  const bool hook_casts = shards == 1 && !parameter.formats;
  w.communicated = parameter.cast == Cast::after_gather && !hook_casts ? plain(options.gather) : w.read;
  for (const Format& format : {w.read.forward, w.read.backward}) require_whole_blocks(parameter, format);
  const bool stored = parameter.cast == Cast::stored;
  if (shards == 1 && (stored || w.communicated == plain(options.master())))
    w.source = Source::in_place;
  else if (stored)
    w.source = Source::stored;
  w.master = w.allocate(w.layout.rows_per_shard, options.master(), weights);
  if (options.master_remainder) w.remainder = w.allocate(w.layout.rows_per_shard, DType::i16, weights);
  if (stored) w.stored = fsdp::allocate(w, w.communicated, {}, w.layout.rows_per_shard, weights);
  return w;
}

GatheredCopy GatheredCopy::make(const std::vector<WeightForms>& unit, std::optional<Pass> only, tensor::Arena& slot) {
  GatheredCopy made;
  made.communicated.reserve(unit.size());
  made.read.reserve(unit.size());
  for (const WeightForms& w : unit) {
    const Copies communicated = w.source == Source::in_place
                                    ? in_place(w, only)
                                    : allocate(w, w.communicated, only, w.layout.padded_rows(), slot);
    const Copies read =
        w.converted() ? allocate(w, w.read, only, w.layout.rows, slot) : slice(communicated, 0, w.layout.rows);
    GatheredWeight& weight = made.read.emplace_back(read.forward, read.backward, CopyStamp{});
    if (w.vector)
      for (Operand* copy : {&weight.forward, &weight.backward}) copy->data = copy->data.reshaped({w.layout.rows});
    made.communicated.push_back(communicated);
    if (w.layout.shards == 1) continue;
    communicated.for_each_tensor([&](const Tensor& t) { made.transferred.push_back(t); });
    if (w.source == Source::stored) {
      const Copies own{communicated.forward.empty() ? Operand() : w.stored.forward,
                       communicated.backward.empty() ? Operand() : w.stored.backward};
      own.for_each_tensor([&](const Tensor& t) { made.own.push_back(t); });
    }
    made.own.resize(made.transferred.size());
  }
  return made;
}

GradientForms GradientForms::make(const std::vector<WeightForms>& unit, const Reduction& reduction,
                                  tensor::Arena& slot) {
  const auto allocate = [&](bool whole, DType dtype) {
    std::vector<Tensor> tensors;
    for (const WeightForms& w : unit)
      tensors.push_back(w.allocate(whole ? w.layout.padded_rows() : w.layout.rows_per_shard, dtype, slot));
    return tensors;
  };
  const bool one_shard = unit.empty() || unit.front().layout.shards == 1;
  GradientForms made;
  made.received.reserve(unit.size());
  for (const WeightForms& w : unit) made.received.push_back(w.gradient);
  made.whole = one_shard ? made.received : allocate(true, DType::fp32);
  made.sent = reduction.staged ? allocate(true, reduction.dtype) : made.whole;
  if (one_shard)
    made.received = made.sent;
  else if (reduction.staged || reduction.summed)
    made.received = allocate(false, reduction.dtype);
  return made;
}

}  // namespace shard8::fsdp
