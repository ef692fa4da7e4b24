// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "model/dims.hpp"

#include <algorithm>

#include "deck/overlap.hpp"
#include "operation/device.hpp"

namespace shard8::model {

Overlap Overlap::make(const deck::Config& deck) {
  Overlap overlap{.methods = deck::exchange_methods(deck)};
  if (operation::on_device(deck.mesh) && overlap.any()) {
    overlap.splits = static_cast<int>(deck.overlap.splits);
    overlap.chunks = deck::pipeline_chunks(deck);
  }
  return overlap;
}

bool Overlap::by_parts() const {
  return std::ranges::any_of(methods,
                             [](ExchangeMethod m) { return m != ExchangeMethod::off && m != ExchangeMethod::bulk; });
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
  d.ffn = model.ffn / tensor;
  d.vocab = model.vocab;
  d.vocab_local = (model.vocab + tensor - 1) / tensor;
  d.norm_eps = static_cast<float>(model.norm_eps);
  d.compute = compute;
  return d;
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
