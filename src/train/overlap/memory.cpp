// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "train/overlap/cases.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/elementwise.hpp"
#include "kernels/quantize.hpp"
#include "tensor/transfer.hpp"
#include "train/state.hpp"

namespace shard8::train {

using fp8::CastBuffer;
using fp8::Operands;
using fp8::Role;
using model::LinearScratch;
using tensor::DType;
using tensor::MemoryKind;
using tensor::Operand;
using tensor::Tensor;

OverlapMemory::OverlapMemory(const Setup& setup, tensor::ArenaSet set)
    : arenas(std::move(set)), setup_(setup), recipe_(setup.weights.recipe) {
  if (recipe_.layers == 0) recipe_ = {};
  tensor::Arena& buffers = arenas[MemoryKind::buffers];
  scale_ = buffers.allocate({1}, DType::fp32);
  zero = buffers.allocate({1}, DType::fp32);
  if (setup.dims.overlap.of_tensor_group()) allocate_layer();
  if (setup.dims.overlap.of_experts()) allocate_experts();
  numbers_ = buffers.allocate({most_numbers_}, DType::fp32);
  workspace = buffers.allocate({static_cast<std::int64_t>(train::workspace_bytes(setup))}, DType::u8);
}

void OverlapMemory::allocate_layer() {
  const model::Dims& d = setup_.dims;
  tensor::Arena& exchanged = arenas[MemoryKind::exchanged];
  tensor::Arena& buffers = arenas[MemoryKind::buffers];
  first = LinearScratch::allocate_exchanged(d, recipe_, exchanged);
  second = first.gathering_elsewhere(d, recipe_, exchanged);
  least.gathered = exchanged.allocate({d.tensor, d.hidden}, d.compute);
  least.partial = exchanged.allocate({d.tensor, d.hidden}, d.compute);
  if (recipe_.on()) least.gathered_cast = CastBuffer(exchanged, d.tensor * d.hidden, recipe_.rowwise(Role::input));
  qkv = column(d.qkv_width());
  proj = row(d.q_width(), second);
  fc1 = column(d.fc1_width());
  fc2 = row(d.ffn, first);
  residual = buffers.allocate({d.tokens_local(), d.hidden}, d.compute);
  local = buffers.allocate({d.tokens_local(), d.hidden}, d.compute);
  const auto vector = [&](DType dtype) {
    const auto bias = [&] { return d.biases() ? buffers.allocate({d.hidden}, dtype) : Tensor{}; };
    const Tensor weight = buffers.allocate({d.hidden}, dtype);
    return model::Affine{weight, bias()};
  };
  norm = {.norm = {d.arch, d.norm_eps},
          .statistics = model::NormStatistics::allocate(d.arch, d.tokens_local(), buffers),
          .forward_statistics = model::NormStatistics::allocate(d.arch, d.tokens_local(), buffers),
          .w = vector(d.compute),
          .dw = vector(DType::fp32),
          .dx = buffers.allocate({d.tokens_local(), d.hidden}, d.compute)};
  head_chunks = model::HeadChunks::make(d);
  while (!head_chunks.last(head_first)) head_first += head_chunks.size(head_first);
  head_w = buffers.allocate({d.vocab_local, d.hidden}, d.compute);
  logits = buffers.allocate({head_chunks.most, d.vocab_local}, DType::fp32);
  dlogits = buffers.allocate({d.tokens() - head_first, d.vocab_local}, d.compute);
  head_dw = buffers.allocate({d.vocab_local, d.hidden}, DType::fp32);
  const std::int64_t rows = std::max(d.tokens(), d.hidden);
  const std::int64_t cols = std::max({d.hidden, d.q_width(), d.ffn, d.qkv_width(), d.fc1_width()});
  most_numbers_ = std::max({rows * cols, dlogits.count(), head_w.count()});
}

tensor::MemoryBytes OverlapMemory::bytes(const Setup& setup) {
  return OverlapMemory(setup, tensor::ArenaSet::measure()).arenas.bytes();
}

/// `gathered`: the tensor group gathers the matrix.
Operands OverlapMemory::operands(Role role, std::int64_t rows, std::int64_t cols, bool gathered) {
  tensor::Arena& arena = arenas[MemoryKind::buffers];
  if (!recipe_.on()) return arena.allocate({rows, cols}, setup_.dims.compute);
  return model::CastScratch::allocate(recipe_, role, rows * cols, arena).view(recipe_, role, rows, cols, gathered);
}

/// Weights are never stored transposed, as in fsdp's units.
model::Weight OverlapMemory::weight(std::int64_t out, std::int64_t in) {
  tensor::Arena& arena = arenas[MemoryKind::buffers];
  if (!recipe_.on()) return arena.allocate({out, in}, setup_.dims.compute);
  const auto copy = [&](tensor::Scaling scaling) {
    return CastBuffer(arena, out * in, scaling).view(out, in, recipe_.dtype(Role::weight), scaling);
  };
  const tensor::Operand rowwise = copy(recipe_.rowwise(Role::weight));
  return {rowwise, recipe_.two_copies(Role::weight) ? copy(recipe_.columnwise(Role::weight)) : rowwise, {}};
}

LinearOperands OverlapMemory::column(std::int64_t out) {
  const model::Dims& d = setup_.dims;
  tensor::Arena& arena = arenas[MemoryKind::buffers];
  return {.x = operands(Role::input, d.tokens_local(), d.hidden, true),
          .dy = operands(Role::output_gradient, d.tokens(), out, false),
          .w = weight(out, d.hidden),
          .y = arena.allocate({d.tokens(), out}, d.compute),
          .dw = arena.allocate({out, d.hidden}, DType::fp32)};
}

LinearOperands OverlapMemory::row(std::int64_t in, const LinearScratch& scratch) {
  const model::Dims& d = setup_.dims;
  tensor::Arena& arena = arenas[MemoryKind::buffers];
  const Role role = Role::output_gradient;
  const auto dy = [&]() -> Operands {
    if (!LinearScratch::casts_in_place(recipe_, d.tensor)) return operands(role, d.tokens_local(), d.hidden, true);
    return Operands(
        scratch.place_of_cast(recipe_, role, d.tokens_local(), d.hidden, setup_.place[base::Axis::tensor], d.tensor));
  };
  return {.x = operands(Role::input, d.tokens(), in, false),
          .dy = dy(),
          .w = weight(d.hidden, in),
          .y = arena.allocate({d.tokens_local(), d.hidden}, d.compute),
          .dw = arena.allocate({d.hidden, in}, DType::fp32)};
}

namespace {

/// Element i of `n` that are spread over `parts` as evenly as whole numbers can be.
std::int32_t share(std::int64_t n, std::int64_t parts, std::int64_t i) {
  return static_cast<std::int32_t>(n * (i + 1) / parts - n * i / parts);
}

void upload(const tensor::Exec& exec, const Tensor& to, const std::vector<std::int32_t>& values) {
  tensor::to_device(exec, to, values.data());
  tensor::finish(exec);  // the values go
}

}  // namespace

void OverlapMemory::allocate_experts() {
  const model::Dims& d = setup_.dims;
  tensor::Arena &buffers = arenas[MemoryKind::buffers], &pushed = arenas[MemoryKind::pushed];
  const std::int64_t tokens = d.tokens_local(), rows = d.experts.round_rows(tokens), ffn = d.experts.ffn;
  const bool in_fp8 = recipe_.expert_layers() > 0;
  ExpertOperands& e = experts;
  e.scratch = model::ExpertExchange::Scratch::allocate(d, buffers, pushed);
  e.counts = buffers.allocate({d.experts.ranks, d.experts.experts}, DType::i32);
  e.source = buffers.allocate({tokens * d.experts.per_token}, DType::i32);
  if (d.experts.sends_fp8) {
    const tensor::Scaling scaling = recipe_.rowwise(Role::input);
    const auto cast = [&](tensor::Arena& arena, std::int64_t n) {
      return CastBuffer(arena, n * d.hidden, scaling).view(n, d.hidden, recipe_.dtype(Role::input), scaling);
    };
    e.tokens.rows = cast(buffers, tokens).data;
    e.input = cast(pushed, rows);
    e.rows.rows = e.input.data;
    const tensor::Scaling of_gradient = recipe_.rowwise(Role::output_gradient);
    e.gradient = CastBuffer(pushed, rows * d.hidden, of_gradient)
                     .view(rows, d.hidden, recipe_.dtype(Role::output_gradient), of_gradient);
  } else {
    e.tokens.rows = buffers.allocate({tokens, d.hidden}, d.compute);
    e.input = e.rows.rows = pushed.allocate({rows, d.hidden}, d.compute);
    e.gradient = pushed.allocate({rows, d.hidden}, d.compute);
    if (in_fp8) e.kept = operands(Role::input, rows, d.hidden, false);
  }
  e.tokens.weights = buffers.allocate({tokens * d.experts.per_token}, DType::fp32);
  e.rows.weights = pushed.allocate({rows}, DType::fp32);
  const auto matrix = [&](Role role, std::int64_t cols) -> Operands {
    return in_fp8 ? operands(role, rows, cols, false) : Operands(buffers.allocate({rows, cols}, d.compute));
  };
  e.activation = matrix(Role::input, ffn);
  e.dinner = matrix(Role::output_gradient, 2 * ffn);
  e.inner = buffers.allocate({rows, 2 * ffn}, d.compute);
  e.dactivation = buffers.allocate({rows, ffn}, d.compute);
  e.dw = buffers.allocate({d.experts.local() * 2 * ffn, d.hidden}, DType::fp32);
  e.fc1 = d.experts.sends_fp8 ? expert_weights(2 * ffn, d.hidden)
                              : buffers.allocate({d.experts.local() * 2 * ffn, d.hidden}, d.compute);
  e.fc2 = in_fp8 ? expert_weights(d.hidden, ffn) : buffers.allocate({d.experts.local() * d.hidden, ffn}, d.compute);
  most_numbers_ = std::max({most_numbers_, rows * std::max(d.hidden, 2 * ffn), tokens * d.hidden, 2 * ffn * d.hidden});
}

model::Weight OverlapMemory::expert_weights(std::int64_t out, std::int64_t in) {
  tensor::Arena& arena = arenas[MemoryKind::buffers];
  const std::int64_t groups = setup_.dims.experts.local();
  const tensor::Scaling scaling = recipe_.rowwise(Role::weight);
  Operand w =
      CastBuffer(arena, groups * out * in, scaling).view(groups * out, in, recipe_.dtype(Role::weight), scaling);
  if (scaling == tensor::Scaling::tensor) w.scale_inv = arena.allocate({groups}, DType::fp32);
  return {w, w, {}};
}

void OverlapMemory::fill_experts(const tensor::Exec& exec) {
  const model::ExpertDims& dims = setup_.dims.experts;
  const std::int64_t pairs = experts.source.count(), tokens = pairs / dims.per_token;
  std::vector<std::int32_t> counts, source;
  for (int rank = 0; rank < dims.ranks; ++rank)
    for (std::int64_t e = 0; e < dims.experts; ++e) counts.push_back(share(pairs, dims.experts, e));
  for (std::int64_t k = 0; k < dims.per_token; ++k)  // the rows of an expert are of different tokens
    for (std::int64_t t = 0; t < tokens; ++t) source.push_back(static_cast<std::int32_t>(t * dims.per_token + k));
  upload(exec, experts.counts, counts);
  upload(exec, experts.source, source);
  kernels::fill_zero(exec, experts.tokens.weights);
  // The tokens have the scale of the rows that arrive.
  fill(exec, Operands(Operand(experts.tokens.rows, experts.input.scale_inv, experts.input.scaling)));
  for (const Operand& m : {experts.input, experts.gradient}) fill(exec, Operands(m));
  for (const Operands& m : {experts.activation, experts.dinner, experts.kept})
    if (!m.rowwise.empty()) fill(exec, m);
  for (const model::Weight& w : {experts.fc1, experts.fc2}) {
    const Operand& all = w.forward;
    const std::int64_t rows = all.rows() / dims.local();
    for (std::int64_t g = 0; g < dims.local(); ++g) {
      Operand one = all.slice(g * rows, rows);
      if (all.scaling == tensor::Scaling::tensor) one.scale_inv = all.scale_inv.slice(g, 1);
      fill(exec, Operands(one));
    }
  }
}

void OverlapMemory::fill(const tensor::Exec& exec) {
  tensor::to_device(exec, scale_, &kScale);
  kernels::fill_zero(exec, zero);
  if (setup_.dims.overlap.of_tensor_group()) fill_layer(exec);
  if (setup_.dims.overlap.of_experts()) fill_experts(exec);
}

void OverlapMemory::fill_layer(const tensor::Exec& exec) {
  for (const LinearOperands* linear : {&qkv, &proj, &fc1, &fc2}) {
    fill(exec, linear->x);
    fill(exec, linear->dy);
    fill(exec, Operands(linear->w.forward, linear->w.backward));
    kernels::fill_zero(exec, linear->dw);  // wgrad may add to it
  }
  for (const Tensor& t : {first.gathered, first.partial, second.gathered, least.gathered, least.partial, residual,
                          local, proj.y, fc2.y, dlogits, head_w, norm.w.weight, norm.dx})
    fill(exec, t);
  // Statistics of 0 keep the gradient, which is added to itself at each call, as it is.
  for (const Tensor& t : {norm.statistics.rstd, norm.statistics.mean, norm.w.bias, norm.dw.weight, norm.dw.bias}) {
    if (!t.empty()) kernels::fill_zero(exec, t);
  }
  kernels::fill_zero(exec, head_dw);
}

/// For a matrix in FP8 only numbers_ are written.
void OverlapMemory::fill(const tensor::Exec& exec, const Tensor& out) {
  const auto key =
      kernels::random_key(static_cast<std::uint64_t>(setup_.place[base::Axis::tensor]), "bench overlap") + ++filled_;
  const Tensor numbers = numbers_.reshaped({out.rows(), out.cols()});
  kernels::normal_fill(exec, numbers, key, {.row_stride = out.cols()}, 1.0);
  if (tensor::size_of(out.dtype) > 1) kernels::cast(exec, out, numbers);
}

void OverlapMemory::fill(const tensor::Exec& exec, const Operands& out) {
  fill(exec, out.rowwise.data);
  if (out.rowwise.scaling == tensor::Scaling::none) return;
  const Tensor numbers = numbers_.reshaped(out.rowwise.data.shape);
  const kernels::CastOptions options = recipe_.cast_options(nullptr);
  if (!recipe_.per_tensor()) {
    if (out.one()) return kernels::quantize_blocks(exec, out.rowwise, numbers, options);
    return kernels::quantize_blocks(exec, out.rowwise, out.columnwise, numbers, options);
  }
  if (out.columnwise.transposed)
    return kernels::quantize_transpose(exec, out.rowwise, out.columnwise.data, {}, numbers, scale_, options);
  kernels::quantize(exec, out.rowwise, {}, numbers, scale_, options);
}

}  // namespace shard8::train
