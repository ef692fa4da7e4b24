// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <memory>
#include <vector>

#include "model/products.hpp"
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

/// Makes the cases of dispatch and of combine.
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

  /// The case of dispatch: of the rows before fc1, and in backward of dy before fc2's dgrad.
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

  /// The case of combine: of fc2's results, and in backward of the gradients of the rows, during fc1's wgrad.
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

  /// A case without its functions, of `exchanges` exchanges of rows. The product of the case is forward's.
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

}  // namespace shard8::train
