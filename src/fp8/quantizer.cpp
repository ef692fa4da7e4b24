// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "fp8/quantizer.hpp"

namespace shard8::fp8 {

using operation::Kernel;
using tensor::DType;
using tensor::Operand;
using tensor::Scaling;
using tensor::Tensor;

CastBuffer::CastBuffer(tensor::Arena& arena, std::int64_t elements, Scaling scaling)
    : values_(arena.allocate({elements}, DType::u8)),
      scales_(arena.allocate({tensor::scale_bytes(scaling, elements)}, DType::u8)) {}

Operand CastBuffer::view(std::int64_t rows, std::int64_t cols, DType dtype, Scaling scaling) const {
  const Tensor values{values_.data, {rows, cols}, dtype};
  const Tensor scales{scales_.data, tensor::scale_shape(scaling, rows, cols), tensor::scale_dtype(scaling)};
  SHARD8_REQUIRE(values.bytes() <= values_.bytes() && scales.bytes() <= scales_.bytes(),
                 "an FP8 matrix ({}, {}) with {} scales does not fit a buffer of {} and {} bytes", rows, cols,
                 tensor::name_of(scaling), values_.bytes(), scales_.bytes());
  return {values, scales, scaling};
}

Operand CastBuffer::view_transposed(std::int64_t rows, std::int64_t cols, DType dtype, Scaling scaling) const {
  Operand matrix = view(rows, cols, dtype, scaling);
  matrix.data.shape = {cols, rows};
  matrix.transposed = true;
  return matrix;
}

void Quantizer::quantize(const Site& site, const Operands& out, const Tensor& amax, const Tensor& x,
                         const kernels::CastOptions& options, bool both) const {
  const bool transposes = both && out.columnwise.transposed;
  Kernel kernel{transposes ? "quantize_transpose" : "quantize", x.rows(), x.cols(), x.dtype, out.rowwise.data.dtype};
  kernel = kernel.reads(x).writes(out.rowwise.scale_inv);
  if (!transposes || !options.transposed_alone) kernel = kernel.writes(out.rowwise.data);
  if (transposes) kernel = kernel.writes(out.columnwise.data);
  executor_.issue(kernel, [&](const tensor::Exec& exec) {
    if (transposes)
      kernels::quantize_transpose(exec, out.rowwise, out.columnwise.data, amax, x, state_.scale(site), options);
    else
      kernels::quantize(exec, out.rowwise, amax, x, state_.scale(site), options);
  });
}

kernels::Outputs Quantizer::block_outputs(const Site& site, const Operands& out, const Tensor& plain,
                                          Purpose purpose) const {
  kernels::Outputs outputs(plain);
  outputs.counts = state_.counts(site);
  outputs.blocks.power_of_2 = recipe().power_of_2;
  if (purpose != Purpose::recomputed) outputs.blocks.rowwise = out.rowwise;
  if (purpose != Purpose::forward_pass) outputs.blocks.columnwise = out.columnwise;
  state_.count_elements(site, (purpose == Purpose::both_passes ? 2 : 1) * plain.count());
  return outputs;
}

kernels::Outputs Quantizer::recomputed_outputs(const Site& site, const Operands& out, const Tensor& plain) const {
  SHARD8_REQUIRE(recomputes_at_once(),
                 "the scales of blocks of 32, and on hosts of 128, are found in a cast of its own");
  if (recipe().blocks_at_once()) return block_outputs(site, out, plain, Purpose::recomputed);
  kernels::Outputs outputs;
  outputs.quantized = out.rowwise;
  outputs.transposed = out.transposed();
  outputs.transposed_alone = !outputs.transposed.empty();
  outputs.scale = state_.scale(site);
  return outputs;
}

kernels::CastOptions Quantizer::counted(const Site& site, const Tensor& end) const {
  kernels::CastOptions options = recipe().cast_options(state_.counts(site));
  options.end = end;
  return options;
}

void Quantizer::count(const Site& site, const Tensor& x, const Tensor& end, std::int64_t copies) const {
  if (end.empty()) state_.count_elements(site, copies * x.count());
}

void Quantizer::cast(const Site& site, const Operands& out, const Tensor& x, Tokens tokens, Purpose purpose,
                     const Tensor& end) const {
  purpose = needed(purpose);
  if (recipe().per_tensor()) {
    if (purpose == Purpose::recomputed) {
      kernels::CastOptions options = recipe().cast_options(nullptr);
      options.transposed_alone = true;
      options.end = end;
      return quantize(site, out, {}, x, options, true);
    }
    const kernels::CastOptions options = counted(site, end);
    if (!state_.scaled_by_own_amax(site)) {
      quantize(site, out, state_.amax(site), x, options, purpose == Purpose::both_passes);
      count(site, x, end);
      return;
    }
    executor_.issue(Kernel{"amax", x.rows(), x.cols(), x.dtype, DType::i32}.reads(x),
                    [&](const tensor::Exec& exec) { kernels::amax(exec, state_.amax(site), x, options); });
  }
  cast_known(site, out, x, tokens, purpose, end);
}

void Quantizer::reduce_amax(const Site& site, const comm::Communicator& group, operation::Group axes) const {
  const Tensor amax = state_.amax(site);
  executor_.run({.op = profile::Collective::all_reduce, .group = axes, .ranks = group.size(), .tensors = {&amax, 1}},
                [&] {
                  return group.all_reduce({&amax, 1}, comm::Communicator::Reduce::max);
                });
}

void Quantizer::cast_known(const Site& site, const Operands& out, const Tensor& x, Tokens tokens, Purpose purpose,
                           const Tensor& end) const {
  if (!recipe().per_tensor()) return cast_blocks(site, out, x, purpose, end);
  if (tokens == Tokens::part && tensor_group_.size() > 1) {
    auto part = executor_.timer().part(profile::Part::tensor_comm, "amax");
    reduce_amax(site, tensor_group_, operation::Group::tensor);
  } else if (tokens == Tokens::dispatched && expert_group_ != nullptr) {
    auto part = executor_.timer().exchange(profile::Exchange::routing);
    reduce_amax(site, *expert_group_, operation::Group::expert);
  }
  count(site, x, end);
  state_.scale_of(executor_, site, !end.empty() || x.count() == 0);
  quantize(site, out, {}, x, counted(site, end), purpose == Purpose::both_passes);
}

void Quantizer::cast_blocks(const Site& site, const Operands& out, const Tensor& x, Purpose purpose,
                            const Tensor& end) const {
  const kernels::CastOptions options = counted(site, end);
  const Kernel kernel = Kernel{"quantize_blocks", x.rows(), x.cols(), x.dtype, out.rowwise.data.dtype}.reads(x);
  if (purpose == Purpose::both_passes && !out.one()) {
    count(site, x, end, 2);
    executor_.issue(kernel.writes(out.rowwise, out.columnwise), [&](const tensor::Exec& exec) {
      kernels::quantize_blocks(exec, out.rowwise, out.columnwise, x, options);
    });
    return;
  }
  count(site, x, end);
  const Operand& copy = purpose == Purpose::recomputed ? out.columnwise : out.rowwise;
  executor_.issue(kernel.writes(copy),
                  [&](const tensor::Exec& exec) { kernels::quantize_blocks(exec, copy, x, options); });
}

}  // namespace shard8::fp8
