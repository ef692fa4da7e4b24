// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "model/embedding.hpp"

#include "kernels/embedding.hpp"
#include "model/sequence_parallel.hpp"

namespace shard8::model {

using profile::Part;
using tensor::Tensor;

Embedding::Embedding(const Dims& dims, int tensor_rank)
    : range_(vocab_range(dims.vocab, dims.tensor, tensor_rank)),
      seq_(dims.seq),
      first_token_(tensor_rank * dims.tokens_local()) {}

void Embedding::forward(const Context& context, const Tensor& x, const Tensor& tokens, const Weights& w,
                        const Scratch& scratch) const {
  const Tensor partial = partial_of(context, scratch.gathered, x);
  {
    auto part = context.timer.part(Part::elementwise, "embedding_forward");
    kernels::embedding_forward(context.exec, partial, w.table, tokens, range_.first, range_.valid);
  }
  reduce_scatter_tokens(context, profile::Exchange::embedding, x, partial);
  if (w.positions.empty()) return;
  auto part = context.timer.part(Part::elementwise, "position_forward");
  kernels::position_forward(context.exec, x, w.positions, first_token_, seq_);
}

Gathering Embedding::begin_backward(const Context& context, const Tensor& dx, const Scratch& scratch) const {
  return start_gather_tokens(context, profile::Exchange::embedding, scratch.gathered, {}, dx, true);
}

void Embedding::backward(const Context& context, const Weights& dw, const Tensor& dx, const Tensor& tokens,
                         const Scratch& scratch, std::optional<Gathering> begun) const {
  if (!dw.positions.empty()) {
    auto part = context.timer.part(Part::elementwise, "position_backward");
    kernels::position_backward(context.exec, dw.positions, dx, first_token_, seq_);
  }
  const Tensor whole =
      begun ? begun->wait(context).data : gather_tokens(context, profile::Exchange::embedding, scratch.gathered, dx);
  auto part = context.timer.part(Part::elementwise, "embedding_backward");
  kernels::embedding_backward(context.exec, dw.table, whole, tokens, range_.first, range_.valid,
                              context.workspace.memory);
}

}  // namespace shard8::model
