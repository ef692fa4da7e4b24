// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "model/embedding.hpp"

#include <algorithm>

#include "kernels/embedding.hpp"
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

}  // namespace shard8::model
