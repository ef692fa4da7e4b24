// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>
#include <memory>
#include <vector>

#include "kernels/elementwise.hpp"
#include "model/products.hpp"
#include "tensor/transfer.hpp"
#include "train/overlap/cases.hpp"

namespace shard8::train {

using fp8::CastBuffer;
using fp8::Role;
using model::ExpertExchange;
using model::GroupPart;
using profile::Exchange;
using tensor::DType;
using tensor::MemoryKind;
using tensor::Operand;
using tensor::Tensor;

namespace {

/// Element i of `n` that are spread over `parts` as evenly as whole numbers can be.
std::int32_t share(std::int64_t n, std::int64_t parts, std::int64_t i) {
  return static_cast<std::int32_t>(n * (i + 1) / parts - n * i / parts);
}

void upload(const tensor::Exec& exec, const Tensor& to, const std::vector<std::int32_t>& values) {
  tensor::to_device(exec, to, values.data());
  tensor::finish(exec);  // the values go
}

/// Makes the two cases.
class ExpertCases {
 public:
  ExpertCases(const model::Context& context, const Setup& setup, const OverlapMemory& memory)
      : context_(&context), d_(setup.dims), in_fp8_(setup.weights.recipe.expert_layers() > 0), m_(memory.experts) {
    model::Dims plain = d_;
    plain.overlap = {};
    const int rank = setup.place.rank(base::AxisSet::expert);
    overlapped_ = std::make_shared<ExpertExchange>(d_, rank);
    plain_ = std::make_shared<ExpertExchange>(plain, rank);
  }

  std::vector<OverlapCase> operator()() const {
    std::vector<OverlapCase> cases;
    if (d_.overlap.hidden(Exchange::dispatch)) cases.push_back(dispatch());
    if (d_.overlap.hidden(Exchange::combine)) cases.push_back(combine());
    return cases;
  }

 private:
  ExpertExchange::OverlappedProducts products(std::int64_t columns) const { return {columns * d_.hidden, in_fp8_}; }

  /// Of the rows before fc1, and in backward of dy before fc2's dgrad.
  OverlapCase dispatch() const {
    const auto fc1 = [context = context_, &m = m_](const GroupPart& part) {
      model::grouped_fprop(*context, m.inner, m.input, m.fc1, part);
    };
    const auto fc2 = [context = context_, &m = m_](const GroupPart& part) {
      model::grouped_dgrad(*context, m.dactivation, m.gradient, m.fc2, part);
    };
    const bool backward = !in_fp8_ || d_.experts.sends_fp8;  // else fc2 is in FP8, and this dispatch of other layers
    OverlapCase c = make(Exchange::dispatch, 2 * d_.experts.ffn, d_.hidden, m_.input.data.dtype, backward ? 2 : 1);
    c.product = [whole = whole(), backward, fc1, fc2] {
      fc1(whole());
      if (backward) fc2(whole());
    };
    const auto with = [context = context_, &m = m_, backward, forward_by = products(2 * d_.experts.ffn),
                       backward_by = products(d_.experts.ffn), fc1, fc2](const auto& exchange) {
      return [=, &m] {
        const model::ExpertRound round = exchange->round(*context, 0, m.scratch);
        exchange->dispatch(*context, round, m.rows, m.tokens, m.source, m.scratch, true, forward_by, fc1);
        if (!backward) return;
        exchange->dispatch(*context, round, {m.gradient.data, {}}, {m.tokens.rows, {}}, m.source, m.scratch, true,
                           backward_by, fc2);
      };
    };
    c.alone = [context = context_, &m = m_, backward, exchange = plain_] {
      const model::ExpertRound round = exchange->round(*context, 0, m.scratch);
      exchange->dispatch(*context, round, m.rows, m.tokens, m.source, m.scratch);
      if (backward)
        exchange->dispatch(*context, round, {m.gradient.data, {}}, {m.tokens.rows, {}}, m.source, m.scratch);
    };
    c.sequential = with(plain_);
    c.overlapped = with(overlapped_);
    return c;
  }

  /// Of fc2's results, and in backward of the gradients of the rows, during fc1's wgrad.
  OverlapCase combine() const {
    const auto fc2 = [context = context_, &m = m_](const GroupPart& part) {
      model::grouped_fprop(*context, m.scratch.output.rows, m.activation.rowwise, m.fc2, part);
    };
    const auto fc1 = [context = context_, &m = m_](const GroupPart& part) {
      const Operand& x = m.kept.rowwise.empty() ? m.input : m.kept.columnwise;
      model::grouped_wgrad(*context, m.dw, m.dinner.columnwise, x, part, false);
    };
    OverlapCase c = make(Exchange::combine, d_.hidden, d_.experts.ffn, m_.activation.rowwise.data.dtype, 2);
    c.product = [whole = whole(), fc1, fc2] {
      fc2(whole());
      fc1(whole());
    };
    const auto with = [context = context_, &m = m_, forward_by = products(d_.experts.ffn),
                       backward_by = products(2 * d_.experts.ffn), fc1, fc2](const auto& exchange) {
      return [=, &m] {
        const model::ExpertRound round = exchange->round(*context, 0, m.scratch);
        exchange->combine(*context, round, false, m.scratch, forward_by, fc2);
        exchange->combine_during(*context, round, true, m.scratch, backward_by, fc1);
      };
    };
    c.alone = [context = context_, &m = m_, exchange = plain_] {
      const model::ExpertRound round = exchange->round(*context, 0, m.scratch);
      exchange->combine(*context, round, false, m.scratch);
      exchange->combine(*context, round, true, m.scratch);
    };
    c.sequential = with(plain_);
    c.overlapped = with(overlapped_);
    return c;
  }

  std::function<GroupPart()> whole() const {
    return [context = context_, &m = m_, exchange = plain_] { return exchange->round(*context, 0, m.scratch).whole(); };
  }

  /// A case without its functions, of `exchanges` exchanges of rows. Its product is forward's.
  OverlapCase make(Exchange name, std::int64_t cols, std::int64_t inner, DType dtype, std::int64_t exchanges) const {
    OverlapCase c;
    c.exchange = d_.overlap.of(name);
    c.m = d_.experts.mean_rows(d_.tokens_local());
    c.n = cols;
    c.k = inner;
    c.dtype = dtype;
    const DType moved = name == Exchange::dispatch ? m_.tokens.rows.dtype : d_.compute;
    const auto bytes = static_cast<std::size_t>(exchanges * c.m * d_.hidden) * tensor::size_of(moved);
    c.moved = {profile::Collective::all_to_all, context_->expert_group->name(), d_.experts.ranks,
               std::string(tensor::name_of(moved)), bytes};
    c.prepare = [context = context_, &m = m_, plain = plain_, overlapped = overlapped_] {
      plain->begin(*context, m.counts, m.scratch);
      overlapped->begin(*context, m.counts, m.scratch);
    };
    return c;
  }

  const model::Context* context_;
  model::Dims d_;
  bool in_fp8_;
  const ExpertOperands& m_;
  std::shared_ptr<ExpertExchange> overlapped_, plain_;
};

}  // namespace

std::vector<OverlapCase> expert_cases(const model::Context& context, const Setup& setup, const OverlapMemory& memory) {
  return ExpertCases(context, setup, memory)();
}

void OverlapMemory::allocate_experts() {
  const model::Dims& d = setup_.dims;
  tensor::Arena &buffers = arenas[MemoryKind::buffers], &pushed = arenas[MemoryKind::pushed];
  const std::int64_t tokens = d.tokens_local(), rows = d.experts.round_rows(tokens), ffn = d.experts.ffn;
  const bool in_fp8 = recipe_.expert_layers() > 0;
  ExpertOperands& e = experts;
  e.scratch = ExpertExchange::Scratch::allocate(d, buffers, pushed);
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
  const auto matrix = [&](Role role, std::int64_t cols) -> fp8::Operands {
    return in_fp8 ? operands(role, rows, cols, false) : fp8::Operands(buffers.allocate({rows, cols}, d.compute));
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
  fill_matrix(exec, {experts.tokens.rows, experts.input.scale_inv, experts.input.scaling});
  for (const Operand& m : {experts.input, experts.gradient}) fill_matrix(exec, m);
  for (const fp8::Operands& m : {experts.activation, experts.dinner, experts.kept}) {
    if (m.rowwise.empty()) continue;
    if (m.rowwise.scaling == tensor::Scaling::none)
      fill(exec, m.rowwise.data);
    else
      fill(exec, m);
  }
  for (const model::Weight& w : {experts.fc1, experts.fc2}) {
    const Operand& all = w.forward;
    const std::int64_t rows = all.rows() / dims.local();
    for (std::int64_t g = 0; g < dims.local(); ++g) {
      Operand one = all.slice(g * rows, rows);
      if (all.scaling == tensor::Scaling::tensor) one.scale_inv = all.scale_inv.slice(g, 1);
      fill_matrix(exec, one);
    }
  }
}

void OverlapMemory::fill_matrix(const tensor::Exec& exec, const Operand& out) {
  if (out.scaling == tensor::Scaling::none) return fill(exec, out.data);
  fill(exec, fp8::Operands(out));
}

}  // namespace shard8::train
