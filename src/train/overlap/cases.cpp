// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "train/overlap/cases.hpp"

#include <string>
#include <utility>

#include "model/products.hpp"
#include "model/sequence_parallel.hpp"
#include "model/vocabulary.hpp"

namespace shard8::train {

using model::LinearScratch;
using model::TensorExchange;
using profile::Collective;
using profile::Exchange;
using tensor::Operand;
using tensor::Tensor;

namespace {

/// The product that hides a whole exchange.
struct Partner {
  std::int64_t m = 0, n = 0, k = 0;
  tensor::DType dtype{};
  std::function<void()> prepare, product;
};

/// What the functions of a case call. Each function has a copy.
struct Run {
  const model::Context* context;
  bool accumulate;

  int ranks() const { return context->tensor_group.size(); }
  model::Gathering start_gather(const TensorExchange& e, const LinearScratch& scratch, const Operand& local,
                                bool hidden) const {
    return model::start_gather_tokens(*context, e.name, scratch.gathered, scratch.gathered_cast, local, hidden, {});
  }
  Operand gather(const TensorExchange& e, const LinearScratch& scratch, const Operand& local) const {
    return start_gather(e, scratch, local, false).wait(*context);
  }
  void fprop_of_tokens(const Tensor& y, const Operand& x, const model::Weight& w, std::int64_t first,
                       std::int64_t tokens) const {
    model::fprop(*context, y.slice(first, tokens), x.slice(first, tokens), w, {});
  }
  void fprop_of_rank(const Tensor& y, const Operand& x, const model::Weight& w, int rank, std::int64_t tokens) const {
    fprop_of_tokens(y, x, w, rank * tokens, tokens);
  }
  /// The norm that reads what was exchanged, in forward and in backward.
  void norm_forward(const OverlapMemory& m, const tensor::SumOfPartials& x) const {
    m.norm.norm.forward(*context, m.local, m.norm.forward_statistics, x, m.norm.w);
  }
  void norm_backward(const OverlapMemory& m, const tensor::PartialSums& dy) const {
    const NormOperands& n = m.norm;
    n.norm.backward(*context, n.dx, n.dw, dy, m.residual, n.statistics, n.w, n.dx);
  }
  /// The head's product of tokens x, which are rows `row` … of a chunk.
  void head(const OverlapMemory& m, std::int64_t row, const Tensor& x) const {
    model::fprop(*context, m.logits.slice(row, x.rows()), x, m.head_w, {});
  }
  /// The products of a chunk in the plain order, without an exchange.
  void head_chunk(const OverlapMemory& m, std::int64_t first) const {
    const std::int64_t n = m.head_chunks.size(first),
                       tokens = context->executor.device() ? n : m.head_chunks.of_a_rank(n);
    for (std::int64_t row = 0; row < n; row += tokens) head(m, row, m.first.gathered.slice(first + row, tokens));
  }
  /// The products of the plain order, without an exchange: one on a device, one for each rank's tokens on hosts.
  void fprop_of_ranks(const Tensor& y, const Operand& x, const model::Weight& w) const {
    if (context->executor.device()) return model::fprop(*context, y, x, w, {});
    for (int rank = 0; rank < ranks(); ++rank) fprop_of_rank(y, x, w, rank, y.rows() / ranks());
  }
};

template <class F>
void for_each_chunk(const model::HeadChunks& chunks, const F& f) {
  for (std::int64_t first = 0; first < chunks.tokens; first += chunks.size(first)) f(first);
}

/// Makes the cases.
class Cases {
 public:
  Cases(const model::Context& context, const OverlapMemory& memory, bool accumulate)
      : m_(memory), run_{&context, accumulate} {}

  std::vector<OverlapCase> of(const model::Overlap& overlap) {
    direct(overlap.of(Exchange::qkv_fprop), m_.qkv, m_.first);
    pipeline(overlap.of(Exchange::proj_fprop), m_.proj, m_.second);
    direct(overlap.of(Exchange::fc1_fprop), m_.fc1, m_.second);
    pipeline(overlap.of(Exchange::fc2_fprop), m_.fc2, m_.first);
    gather_of_x(overlap.of(Exchange::qkv_dgrad), m_.qkv, m_.first);
    gather_of_dy(overlap.of(Exchange::proj_dgrad), m_.proj, m_.second, m_.fc2, m_.first);
    gather_of_x(overlap.of(Exchange::fc1_dgrad), m_.fc1, m_.second);
    gather_of_dy(overlap.of(Exchange::fc2_dgrad), m_.fc2, m_.first, m_.proj, m_.second);
    scatter(overlap.of(Exchange::qkv_wgrad), column_wgrad(overlap.of(Exchange::qkv_wgrad), m_.qkv, m_.first));
    scatter(overlap.of(Exchange::fc1_wgrad), column_wgrad(overlap.of(Exchange::fc1_wgrad), m_.fc1, m_.second));
    head(overlap.of(Exchange::head_fprop));
    scatter(overlap.of(Exchange::head_dgrad), head_wgrad());
    return std::move(cases_);
  }

 private:
  /// The gather of a column-parallel linear's input before its forward.
  void direct(const TensorExchange& e, const LinearOperands& l, const LinearScratch& scratch) {
    if (!e.hidden()) return;
    const TensorExchange off{e.name};
    const Operand x = run_.gather(off, scratch, l.x.rowwise);
    const Operand token = l.x.rowwise.slice(0, 1);
    OverlapCase c = gather_case(e, scratch, l.x.rowwise);
    set_product(c, {x.rows(), l.y.cols(), x.cols(), x.data.dtype, c.alone, {}});
    c.product = [=, run = run_, &l] { run.fprop_of_ranks(l.y, x, l.w); };
    c.sequential = [=, run = run_, &l, &scratch] {
      model::column_linear_forward(*run.context, l.y, l.x, {l.w, {}}, scratch, off);
    };
    c.overlapped = [=, run = run_, &l, &scratch] {
      model::column_linear_forward(*run.context, l.y, l.x, {l.w, {}}, scratch, e);
    };
    c.flags = [=, run = run_, &l, &least = m_.least] {
      model::GatheringByParts gathering(*run.context, e, least.gathered, least.gathered_cast, token, {});
      const std::int64_t tokens = x.rows() / run.ranks();
      gathering.in_order_of_arrival(*run.context, e.splits, run.ranks(), [&](int rank, const Operand& some) {
        run.fprop_of_tokens(l.y, x, l.w, rank * tokens, some.rows() * tokens);
      });
      gathering.finish(*run.context);
    };
    cases_.push_back(std::move(c));
  }

  /// The gather of the head's input before its forward products, which are computed chunk by chunk.
  void head(const TensorExchange& e) {
    if (!e.hidden()) return;
    const TensorExchange off{e.name};
    const Tensor x = m_.residual, token = x.slice(0, 1);
    OverlapCase c = gather_case(e, m_.first, x);
    set_product(c, {x.rows() * run_.ranks(), m_.head_w.rows(), x.cols(), x.dtype, c.alone, {}});
    const auto forward = [=, run = run_, &m = m_](const TensorExchange& exchange) {
      const auto own = model::HeadInput::own(*run.context, exchange, m.head_chunks, m.first.gathered, x);
      model::HeadInput input(*run.context, exchange, m.head_chunks, m.first.gathered, own);
      for_each_chunk(m.head_chunks, [&](std::int64_t first) {
        input.forward(*run.context, first, [&](std::int64_t row, const Tensor& some) { run.head(m, row, some); });
      });
    };
    c.product = [=, run = run_, &m = m_] {
      for_each_chunk(m.head_chunks, [&](std::int64_t first) { run.head_chunk(m, first); });
    };
    c.sequential = [=] { forward(off); };
    c.overlapped = [=] { forward(e); };
    c.flags = [=, run = run_, &m = m_] {
      model::GatheringByParts gathering(*run.context, e, m.least.gathered, {}, token, {});
      const std::int64_t tokens = m.head_chunks.gathered_first();
      const auto ranks = static_cast<int>(m.head_chunks.size(0) / tokens);
      gathering.in_order_of_arrival(*run.context, e.splits, ranks, [&](int rank, const Operand& some) {
        run.head(m, rank * tokens, m.first.gathered.slice(rank * tokens, some.rows() * tokens));
      });
      gathering.finish(*run.context);
      for_each_chunk(m.head_chunks, [&](std::int64_t first) {
        if (first > 0) run.head_chunk(m, first);
      });
    };
    cases_.push_back(std::move(c));
  }

  /// The reduce-scatter of a row-parallel linear's output after its forward. The norm behind it reads the sum, and may
  /// make it, so the norm is a part of the product.
  void pipeline(const TensorExchange& e, const LinearOperands& l, const LinearScratch& scratch) {
    if (!e.hidden()) return;
    const Operand& x = l.x.rowwise;
    const Tensor residual = m_.residual;
    OverlapCase c = scatter_case(e, l.y, scratch.partial, residual);
    set_product(c, {x.rows(), l.y.cols(), x.cols(), x.data.dtype, [] {}, {}});
    c.product = [=, run = run_, &m = m_, &l, &scratch] {
      run.fprop_of_ranks(scratch.partial, l.x.rowwise, l.w);
      run.norm_forward(m, l.y);
    };
    const auto forward = [=, run = run_, &m = m_, &l, &scratch](const TensorExchange& exchange) {
      const model::HeldSum y =
          model::row_linear_forward(*run.context, l.y, l.x, {l.w, {}}, residual, scratch, exchange);
      run.norm_forward(m, y.sum);
    };
    c.sequential = [=] { forward({e.name}); };
    c.overlapped = [=] { forward(e); };
    c.flags = [=, run = run_, &m = m_, &l, &scratch, &least = m_.least] {
      model::ScatteringByParts scattering(*run.context, e, l.y.slice(0, 1), least.partial, {});
      const std::int64_t tokens = l.y.rows();
      scattering.in_order_of_departure(*run.context, 1, [&](std::int64_t rank, std::int64_t) {  // a token is a rank's
        const int chunks = rank == run.context->tensor_group.rank() ? 1 : e.chunks;
        model::for_each_chunk_of_rank(tokens, chunks, [&](std::int64_t first, std::int64_t count) {
          run.fprop_of_tokens(scratch.partial, l.x.rowwise, l.w, rank * tokens + first, count);
        });
      });
      scattering.finish(*run.context);
      run.norm_forward(m, l.y);
    };
    cases_.push_back(std::move(c));
  }

  /// The gather of a column-parallel linear's input in backward, overlapped with dgrad.
  void gather_of_x(const TensorExchange& e, const LinearOperands& l, const LinearScratch& scratch) {
    if (!e.hidden()) return;
    const Operand& dy = l.dy.rowwise;
    Partner dgrad{dy.rows(), scratch.partial.cols(), dy.cols(), dy.data.dtype, [] {}, {}};
    dgrad.product = [run = run_, &l, &scratch] { model::dgrad(*run.context, scratch.partial, l.dy.rowwise, l.w); };
    bulk_gather(e, scratch, l.x.columnwise, dgrad);
  }

  /// The gather of dy of a row-parallel linear, overlapped with the wgrad of the row-parallel linear before it, whose
  /// dy was gathered into `kept`.
  void gather_of_dy(const TensorExchange& e, const LinearOperands& l, const LinearScratch& scratch,
                    const LinearOperands& before, const LinearScratch& kept) {
    if (!e.hidden()) return;
    bulk_gather(e, scratch, l.dy.rowwise, wgrad(e, before, before.dy.columnwise, before.x.columnwise, kept));
  }

  void bulk_gather(const TensorExchange& e, const LinearScratch& scratch, const Operand& local,
                   const Partner& partner) {
    OverlapCase c = gather_case(e, scratch, local);
    set_product(c, partner);
    c.sequential = one_after_the_other(c);
    c.overlapped = [=, run = run_, &scratch, product = c.product] {
      auto gathering = run.start_gather(e, scratch, local, true);
      product();
      gathering.wait(*run.context);
    };
    cases_.push_back(std::move(c));
  }

  /// A reduce-scatter in backward, of the gradient of a linear's input. The norm before the linear reads it, and may
  /// sum it, so the norm's backward is a part of the product.
  void scatter(const TensorExchange& e, const Partner& partner) {
    if (!e.hidden()) return;
    const Tensor local = m_.local, partial = m_.first.partial;
    OverlapCase c = scatter_case(e, local, partial, {});
    set_product(c, partner);
    c.product = [=, run = run_, &m = m_, wgrad = partner.product] {
      wgrad();
      run.norm_backward(m, local);
    };
    c.sequential = one_after_the_other(c);
    c.overlapped = [=, run = run_, &m = m_, wgrad = partner.product] {
      auto scattering = model::start_scatter_partial_sums(*run.context, e, local, partial);
      wgrad();
      run.norm_backward(m, scattering.wait(*run.context));
    };
    cases_.push_back(std::move(c));
  }

  /// wgrad, for which one operand is gathered into `scratch` before: x of a column-parallel linear, dy of a
  /// row-parallel one.
  Partner wgrad(const TensorExchange& e, const LinearOperands& l, const Operand& dy, const Operand& x,
                const LinearScratch& scratch) {
    const bool column = x.rows() < dy.rows();
    const Operand local = column ? x : dy;
    const Operand whole = run_.gather(e, scratch, local);
    const Operand all_dy = column ? dy : whole, all_x = column ? whole : x;
    return {l.dw.rows(),
            l.dw.cols(),
            all_dy.rows(),
            all_dy.data.dtype,
            [=, run = run_, &scratch] { run.gather(e, scratch, local); },
            [=, run = run_, &l] { model::wgrad(*run.context, l.dw, all_dy, all_x, run.accumulate); }};
  }
  Partner column_wgrad(const TensorExchange& e, const LinearOperands& l, const LinearScratch& scratch) {
    return wgrad(e, l, l.dy.columnwise, l.x.columnwise, scratch);
  }

  /// wgrad of the head's last tokens.
  Partner head_wgrad() {
    const Tensor dw = m_.head_dw, dy = m_.dlogits, x = m_.first.gathered.slice(m_.head_first, dy.rows());
    const bool accumulate = run_.accumulate || m_.head_first > 0;
    return {dy.cols(), x.cols(), dy.rows(),
            dy.dtype,  [] {},    [=, run = run_] { model::wgrad(*run.context, dw, dy, x, accumulate); }};
  }

  /// The parts of a case that its exchange alone gives.
  OverlapCase gather_case(const TensorExchange& e, const LinearScratch& scratch, const Operand& local) {
    const bool blocks = local.scaling != tensor::Scaling::none && local.scaling != tensor::Scaling::tensor;
    const std::size_t own = local.data.bytes() + (blocks ? local.scale_inv.bytes() : 0);
    OverlapCase c;
    c.exchange = e;
    c.moved = key(Collective::all_gather, local.data.dtype, own);
    c.alone = [=, run = run_, &scratch] { run.gather(e, scratch, local); };
    return c;
  }
  OverlapCase scatter_case(const TensorExchange& e, const Tensor& local, const Tensor& partial, const Tensor& addend) {
    OverlapCase c;
    c.exchange = e;
    c.moved = key(Collective::reduce_scatter, local.dtype, local.bytes());
    c.alone = [=, run = run_] { model::reduce_scatter_tokens(*run.context, e.name, local, partial, addend); };
    return c;
  }
  profile::CollectiveKey key(Collective op, tensor::DType dtype, std::size_t own) const {
    return {op, run_.context->tensor_group.name(), run_.ranks(), std::string(name_of(dtype)),
            own * static_cast<std::size_t>(run_.ranks())};
  }
  /// The exchange, then the product.
  static std::function<void()> one_after_the_other(const OverlapCase& c) {
    return [alone = c.alone, product = c.product] {
      alone();
      product();
    };
  }
  static void set_product(OverlapCase& c, const Partner& p) {
    c.m = p.m;
    c.n = p.n;
    c.k = p.k;
    c.dtype = p.dtype;
    c.prepare = p.prepare;
    c.product = p.product;
  }

  const OverlapMemory& m_;
  Run run_;
  std::vector<OverlapCase> cases_;
};

}  // namespace

std::vector<OverlapCase> overlap_cases(const model::Context& context, const model::Overlap& overlap,
                                       const OverlapMemory& memory, bool accumulate) {
  return Cases(context, memory, accumulate).of(overlap);
}

}  // namespace shard8::train
