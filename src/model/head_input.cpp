// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "model/head_input.hpp"

namespace shard8::model {

using tensor::Tensor;

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
