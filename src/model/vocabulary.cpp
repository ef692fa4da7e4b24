// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "model/vocabulary.hpp"

#include <algorithm>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>

#include "kernels/vocabulary.hpp"
#include "model/products.hpp"
#include "model/sequence_parallel.hpp"

namespace shard8::model {

using operation::Kernel;
using tensor::Tensor;

namespace {

/// Bytes of so many elements of rows, one for each token, as far as this rank reads or writes them: those of tokens of
/// its part of the vocabulary, on the mean 1/tensor of all.
std::uint64_t found_bytes(const Context& context, std::int64_t elements, tensor::DType dtype) {
  return static_cast<std::uint64_t>(elements / context.tensor_group.size()) * tensor::size_of(dtype);
}

}  // namespace

Embedding::Embedding(const Dims& dims, int tensor_rank)
    : range_(vocab_range(dims.vocab, dims.tensor, tensor_rank)),
      seq_(dims.seq),
      first_token_(tensor_rank * dims.tokens_local()) {}

void Embedding::forward(const Context& context, const Tensor& x, const Tensor& tokens, const Weights& w,
                        const Scratch& scratch) const {
  Partial partial(context, profile::Exchange::embedding, scratch.gathered, x);
  const Tensor& rows = partial.matrix;  // one of the table for each token
  Kernel lookup{"embedding_forward", rows.rows(), rows.cols(), w.table.dtype, rows.dtype};
  lookup = lookup.reads(tokens).writes(rows);
  lookup.read += found_bytes(context, rows.count(), w.table.dtype);
  context.issue(lookup, [&](const tensor::Exec& exec) {
    kernels::embedding_forward(exec, rows, w.table, tokens, range_.first, range_.valid);
  });
  reduce_scatter_tokens(context, profile::Exchange::embedding, x, std::move(partial));
  if (w.positions.empty()) return;
  context.issue(Kernel{"position_forward", x.rows(), x.cols(), x.dtype, x.dtype}.reads(x, x).writes(x),
                [&](const tensor::Exec& exec) { kernels::position_forward(exec, x, w.positions, first_token_, seq_); });
}

Gathering Embedding::begin_backward(const Context& context, const Tensor& dx, const Scratch& scratch,
                                    bool hidden) const {
  Lease memory;
  if (context.tensor_group.size() > 1) memory = context.lease("the embedding's gradient", {scratch.gathered});
  return start_gather_tokens(context, profile::Exchange::embedding, scratch.gathered, {}, dx, hidden,
                             std::move(memory));
}

void Embedding::backward(const Context& context, const Weights& dw, const Tensor& dx, const Tensor& tokens,
                         const Scratch& scratch, std::optional<Gathering> begun) const {
  if (!dw.positions.empty()) {
    const Tensor sums = dw.positions.slice(0, std::min(seq_, dx.rows()));
    context.issue(
        Kernel{"position_backward", dx.rows(), dx.cols(), dx.dtype, sums.dtype}.reads(dx, sums).writes(sums),
        [&](const tensor::Exec& exec) { kernels::position_backward(exec, dw.positions, dx, first_token_, seq_); });
  }
  if (!begun) begun.emplace(begin_backward(context, dx, scratch, false));
  const Tensor& whole = begun->wait(context).data;
  Kernel kernel{"embedding_backward", whole.rows(), whole.cols(), whole.dtype, dw.table.dtype};
  const std::uint64_t sums = found_bytes(context, whole.count(), dw.table.dtype);
  kernel = kernel.reads(tokens);
  kernel.read += found_bytes(context, whole.count(), whole.dtype) + sums;
  kernel.written += sums;
  context.issue(kernel, [&](const tensor::Exec& exec) {
    kernels::embedding_backward(exec, dw.table, whole, tokens, range_.first, range_.valid, context.workspace.memory);
  });
}

using comm::Communicator;
using profile::Phase;
using tensor::DType;

LossHead::LossHead(const Dims& dims, int tensor_rank)
    : norm_{dims.arch, dims.norm_eps},
      range_(vocab_range(dims.vocab, dims.tensor, tensor_rank)),
      chunks_(HeadChunks::make(dims)),
      gather_(dims.overlap.of(Exchange::head_fprop)),
      scatter_(dims.overlap.of(Exchange::head_dgrad)) {}

LossHead::Scratch LossHead::allocate_scratch(const Dims& d, tensor::Arena& arena) {
  const std::int64_t chunk = HeadChunks::make(d).most;
  const std::size_t begin = arena.mark();
  Scratch s;
  s.statistics = NormStatistics::allocate(d.arch, d.tokens_local(), arena);
  s.normed = arena.allocate({d.tokens_local(), d.hidden}, d.compute);
  s.dnormed = arena.allocate({d.tokens_local(), d.hidden}, d.compute);
  s.logits = arena.allocate({chunk, d.vocab_local}, DType::fp32);
  s.dlogits = d.compute == DType::fp32 ? s.logits : arena.allocate({chunk, d.vocab_local}, d.compute);
  s.row_max = arena.allocate({chunk}, DType::fp32);
  s.sums = arena.allocate({2 * chunk}, DType::fp32);
  s.own = arena.since(begin);
  return s;
}

/// Writes the maxima and sums over the whole vocabulary of one chunk's logits. Adds the chunk's loss.
void LossHead::chunk_loss(const Context& context, const Tensor& loss, const Tensor& logits, const Tensor& row_max,
                          const Tensor& sums, const Targets& targets) const {
  const auto reduce = [&](const Tensor& values, Communicator::Reduce how) {
    if (context.tensor_group.size() == 1) return;
    auto part = context.timer().exchange(profile::Exchange::cross_entropy, "all_reduce");
    context.executor.run(
        {.op = profile::Collective::all_reduce, .ranks = context.tensor_group.size(), .tensors = {&values, 1}}, [&] {
          return context.tensor_group.all_reduce({&values, 1}, how);
        });
  };
  const auto kernel = [&](std::string_view name) {
    return Kernel{name, logits.rows(), logits.cols(), logits.dtype, DType::fp32};
  };
  context.issue(kernel("cross_entropy_max").reads(logits).writes(row_max),
                [&](const tensor::Exec& exec) { kernels::cross_entropy_max(exec, row_max, logits, range_.valid); });
  reduce(row_max, Communicator::Reduce::max);
  context.issue(kernel("cross_entropy_sums").reads(logits, row_max, targets.ids).writes(sums),
                [&](const tensor::Exec& exec) {
                  kernels::cross_entropy_sums(exec, sums, logits, row_max, targets.ids, range_.first, range_.valid);
                });
  reduce(sums, Communicator::Reduce::sum);
  context.issue(Kernel{"cross_entropy_loss", logits.rows(), 1, sums.dtype, DType::fp32}.reads(sums, targets.weights),
                [&](const tensor::Exec& exec) { kernels::cross_entropy_loss(exec, loss, sums, targets.weights); });
}

void LossHead::forward_backward(const Context& context, const Tensor& loss, const Tensor& dx, const Gradients& dw,
                                HeldSum x, const Targets& targets, const Weights& w, const Scratch& scratch,
                                float scale) const {
  const Backward backward{dx, dw, scale};
  compute(context, loss, std::move(x), targets, w, scratch, &backward);
}

void LossHead::forward(const Context& context, const Tensor& loss, HeldSum x, const Targets& targets, const Weights& w,
                       const Scratch& scratch) const {
  compute(context, loss, std::move(x), targets, w, scratch, nullptr);
}

void LossHead::compute(const Context& context, const Tensor& loss, HeldSum x, const Targets& targets, const Weights& w,
                       const Scratch& scratch, const Backward* backward) const {
  const Lease held = context.lease("the head's scratch", {scratch.own});
  Lease gathered;
  if (context.tensor_group.size() > 1) gathered = context.lease(name_of(gather_.name), {scratch.gathered});
  HeadInput input = [&] {
    auto forward = context.timer().phase(Phase::forward);
    const HeadInput::Own own = HeadInput::own(context, gather_, chunks_, scratch.gathered, scratch.normed);
    const auto normalise = [&](std::int64_t row, const Tensor& to) {
      if (!to.empty())
        norm_.forward(context, to, scratch.statistics.slice(row, to.rows()), x.sum.slice(row, to.rows()), w.norm);
    };
    if (own.first.data == scratch.normed.data) {
      normalise(0, scratch.normed);
    } else {
      normalise(0, own.first);
      normalise(own.first.rows(), own.others);
    }
    return HeadInput(context, gather_, chunks_, scratch.gathered, own);
  }();
  const Tensor residual = x.read();
  std::optional<Partial> partial;
  if (backward != nullptr) partial.emplace(context, scatter_.name, scratch.partial, scratch.dnormed);
  std::optional<Scattering> dnormed;
  bool accumulate = backward != nullptr && backward->dw.accumulate;
  for (std::int64_t first = 0, n = 0; first < chunks_.tokens; first += n) {
    n = chunks_.size(first);
    const Tensor logits = scratch.logits.slice(0, n);
    const Tensor row_max = scratch.row_max.slice(0, n);
    const Tensor sums = scratch.sums.reshaped({2, n});
    const Targets chunk{targets.ids.slice(first, n), targets.weights.slice(first, n)};
    {
      auto forward = context.timer().phase(Phase::forward);
      const auto product = [&](std::int64_t row, const Tensor& tokens) {
        fprop(context, logits.slice(row, tokens.rows()), tokens, w.head, {});
      };
      input.forward(context, first, std::cref(product));  // by reference: a copy would take host memory
      chunk_loss(context, loss, logits, row_max, sums, chunk);
    }
    if (backward == nullptr) continue;

    auto phase = context.timer().phase(Phase::backward);
    const Tensor dlogits = scratch.dlogits.slice(0, n);
    context.issue(Kernel{"cross_entropy_backward", n, logits.cols(), logits.dtype, dlogits.dtype}
                      .reads(logits, row_max, sums, chunk.ids, chunk.weights)
                      .writes(dlogits),
                  [&](const tensor::Exec& exec) {
                    kernels::cross_entropy_backward(exec, dlogits, logits, row_max, sums, chunk.ids, chunk.weights,
                                                    range_.first, range_.valid, backward->scale);
                  });
    const bool last = chunks_.last(first);
    const auto weight_gradient = [&] { wgrad(context, backward->dw.head, dlogits, input.chunk(first), accumulate); };
    if (!last || !scatter_.hidden()) weight_gradient();
    dgrad(context, partial->matrix.slice(first, n), dlogits, w.head);
    if (last) {
      dnormed = start_scatter_partial_sums(context, scatter_, scratch.dnormed, std::move(*partial));
      if (scatter_.hidden()) weight_gradient();
      dnormed->wait(context);
    }
    accumulate = true;
  }
  if (backward == nullptr) return;
  auto phase = context.timer().phase(Phase::backward);
  norm_.backward(context, backward->dx, backward->dw.norm, dnormed->wait(context), residual, scratch.statistics, w.norm,
                 {});
}

HeadChunks HeadChunks::make(const Dims& d) {
  // Chosen: on hosts as many logits as fit the caches. On devices enough to keep the device busy, and few enough chunks
  // that reading and writing the head's gradient for each takes little time.
  const std::int64_t logits_bytes = std::int64_t{d.device ? 256 : 32} << 20;
  constexpr std::int64_t kFewest = 64;
  const std::int64_t usual =
      std::max(kFewest, logits_bytes / (static_cast<std::int64_t>(sizeof(float)) * d.vocab_local));
  const std::int64_t fit = d.head_tokens > 0 ? d.head_tokens : usual;
  HeadChunks chunks{d.tokens(), d.tokens_local(), 0};
  if (d.tensor == 1) {
    chunks.most = std::min(fit, chunks.tokens);
  } else if (fit >= chunks.local) {
    chunks.most = std::min<std::int64_t>(fit / chunks.local, d.tensor) * chunks.local;
  } else {
    const std::int64_t parts = (chunks.local + fit - 1) / fit;
    chunks.most = (chunks.local + parts - 1) / parts;
  }
  return chunks;
}

HeadInput::Own HeadInput::own(const Context& context, const TensorExchange& exchange, const HeadChunks& chunks,
                              const Tensor& whole, const Tensor& local) {
  if (!exchange.hidden()) return {local, {}};
  const std::int64_t first = chunks.gathered_first(), others = chunks.local - first;
  if (!context.device() || !chunks.normed_in_place()) return {local.slice(0, first), local.slice(first, others)};
  const std::int64_t ranks = context.tensor_group.size(), rank = context.tensor_group.rank();
  const Tensor all = whole.reshaped({chunks.tokens, local.cols()});
  return {all.slice(rank * first, first), all.slice(ranks * first + rank * others, others)};
}

HeadInput::HeadInput(const Context& context, const TensorExchange& exchange, const HeadChunks& chunks,
                     const Tensor& whole, const Own& own)
    : chunks_(chunks), splits_(exchange.splits), whole_(whole), first_(own.first.rows()) {
  if (!exchange.hidden()) {
    whole_ = start_gather_tokens(context, exchange.name, whole, {}, own.first, false, {}).wait(context).data;
    return;
  }
  whole_ = whole.reshaped({chunks.tokens, own.first.cols()});
  const std::int64_t ranks = context.tensor_group.size(), others = chunks.local - first_;
  parts_.emplace(context, exchange, whole_.slice(0, ranks * first_), fp8::CastBuffer{}, own.first, Lease(), true);
  if (others > 0)
    others_ = start_gather_tokens(context, exchange.name, whole_.slice(ranks * first_, ranks * others), {}, own.others,
                                  true, {});
}

std::int64_t HeadInput::place(std::int64_t token) const {
  const std::int64_t rank = token / chunks_.local, of_rank = token % chunks_.local;
  if (of_rank < first_) return rank * first_ + of_rank;
  return chunks_.tokens / chunks_.local * first_ + rank * (chunks_.local - first_) + of_rank - first_;
}

void HeadInput::forward(const Context& context, std::int64_t first, const Multiply& multiply) {
  if (parts_) return forward_as_they_arrive(context, multiply);
  if (others_) {
    others_->wait(context);
    others_.reset();
  }
  const Tensor x = chunk(first);
  const std::int64_t tokens = context.device() ? x.rows() : chunks_.of_a_rank(x.rows());
  for (std::int64_t row = 0; row < x.rows(); row += tokens) multiply(row, x.slice(row, tokens));
}

/// The first chunk has the first `first_` tokens of some ranks.
void HeadInput::forward_as_they_arrive(const Context& context, const Multiply& multiply) {
  const auto ranks = static_cast<int>(chunks_.size(0) / first_);
  parts_->in_order_of_arrival(context, splits_, ranks,
                              [&](int rank, const tensor::Operand& x) { multiply(rank * first_, x.data); });
  parts_->finish(context, whole_);
  parts_.reset();
}

}  // namespace shard8::model
