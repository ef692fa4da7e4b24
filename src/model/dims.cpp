// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "model/dims.hpp"

#include <algorithm>
#include <cmath>

#include "deck/device.hpp"
#include "deck/overlap.hpp"

namespace shard8::model {

Overlap Overlap::make(const deck::Config& deck) {
  Overlap overlap{.methods = deck::exchange_methods(deck)};
  if (deck::on_device(deck.mesh) && overlap.any()) {
    overlap.splits = static_cast<int>(deck.overlap.splits);
    overlap.chunks = deck::pipeline_chunks(deck);
    overlap.expert_chunks = deck::expert_chunks(deck);
  }
  return overlap;
}

bool Overlap::of_tensor_group() const {
  return std::ranges::any_of(profile::kOverlapKeys,
                             [this](Exchange e) { return !profile::of_experts(e) && hidden(e); });
}

bool Overlap::by_parts() const {
  return std::ranges::any_of(profile::kOverlapKeys, [this](Exchange e) {
    return !profile::of_experts(e) && hidden(e) && methods[e] != ExchangeMethod::bulk;
  });
}

Dims Dims::make(const deck::ModelConfig& model, std::int64_t micro_batch, int tensor, tensor::DType compute) {
  Dims d;
  d.arch = model.arch;
  d.tensor = tensor;
  d.batch = micro_batch;
  d.seq = model.seq;
  d.hidden = model.hidden;
  d.heads = model.heads / tensor;
  d.kv_heads = model.kv_heads / tensor;
  d.head_dim = model.head_width();
  d.qk_norm = model.qk_norm;
  d.ffn = model.expert_layers() < model.layers ? model.ffn / tensor : 0;
  if (model.moe.on()) {
    const deck::MoeConfig& moe = model.moe;
    d.experts = {.experts = moe.experts,
                 .per_token = moe.experts_per_token,
                 .ffn = moe.ffn,
                 .capacity = moe.capacity,
                 .balance = moe.balance,
                 .routing = moe.routing,
                 .skew = moe.routing == deck::MoeRouting::zipf ? moe.skew : 0,
                 .seed = model.init_seed,
                 .dense_layers = moe.dense_layers,
                 .layers = model.expert_layers()};
  }
  d.vocab = model.vocab;
  d.vocab_local = (model.vocab + tensor - 1) / tensor;
  d.norm_eps = static_cast<float>(model.norm_eps);
  d.compute = compute;
  return d;
}

std::int64_t ExpertDims::most_rows(std::int64_t tokens) const {
  const std::int64_t rows = ranks * tokens * std::min(per_token, local());
  // Each expert that has rows is padded; all have a multiple of rows together.
  return (rows + std::min(local(), rows) * (rows_multiple - 1)) / rows_multiple * rows_multiple;
}

std::int64_t ExpertDims::round_rows(std::int64_t tokens) const {
  const double rows = std::min(std::ceil(capacity * static_cast<double>(mean_rows(tokens))), 9e15);
  return std::min(most_rows(tokens), padded(static_cast<std::int64_t>(rows)) +
                                         local() * (rows_multiple - 1) / rows_multiple * rows_multiple);
}

std::int64_t ExpertDims::most_rounds(std::int64_t tokens) const {
  const std::int64_t rows = round_rows(tokens);
  return rows == 0 ? 0 : (most_rows(tokens) + rows - 1) / rows;
}

VocabRange vocab_range(std::int64_t vocab, int tensor, int tensor_rank) {
  const std::int64_t rows = (vocab + tensor - 1) / tensor;
  const std::int64_t first = std::min(vocab, rows * tensor_rank);
  return {first, std::min(rows, vocab - first)};
}

tensor::DType dtype_of(deck::FloatType type) {
  return type == deck::FloatType::bf16 ? tensor::DType::bf16 : tensor::DType::fp32;
}

}  // namespace shard8::model
