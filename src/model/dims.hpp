// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "deck/config.hpp"
#include "model/overlap.hpp"
#include "operation/device.hpp"
#include "tensor/dtype.hpp"

namespace shard8::model {

/// Sizes of the model on one tensor rank. The T ranks of a tensor group share every layer.
struct Dims {
  deck::Arch arch = deck::Arch::llama;
  int tensor = 1;          ///< T
  std::int64_t batch = 0;  ///< sequences of a micro-batch
  std::int64_t seq = 0;
  std::int64_t hidden = 0;
  std::int64_t heads = 0;     ///< query heads of this rank
  std::int64_t kv_heads = 0;  ///< key (and value) heads of this rank
  std::int64_t head_dim = 0;
  std::int64_t ffn = 0;          ///< feed-forward width of this rank
  std::int64_t vocab = 0;        ///< whole vocabulary
  std::int64_t vocab_local = 0;  ///< ceil(vocab/T): the last ranks have padding rows
  std::int64_t head_tokens = 0;  ///< most tokens in a chunk of the head (HeadChunks); 0: as many as fit the caches
  float norm_eps = 1e-5f;
  tensor::DType compute = tensor::DType::fp32;
  bool device = operation::on_device({});  ///< whether steps run on a device
  bool deterministic = true;  ///< attention's backward gives the same bits in every run (kernels::AttentionShape)
  Overlap overlap;

  /// `micro_batch`: sequences; `tensor`: T. T must divide heads, kv_heads, ffn and micro_batch·seq, as a loaded deck
  /// guarantees. `head_tokens`, `device`, `deterministic`
  /// and `overlap` keep their defaults.
  static Dims make(const deck::ModelConfig& model, std::int64_t micro_batch, int tensor, tensor::DType compute);

  std::int64_t tokens() const { return batch * seq; }              ///< of a micro-batch, over the tensor group
  std::int64_t tokens_local() const { return tokens() / tensor; }  ///< of this rank between blocks, a contiguous range
  std::int64_t q_width() const { return heads * head_dim; }
  std::int64_t qkv_width() const { return (heads + 2 * kv_heads) * head_dim; }
  /// Columns of fc1's output; for llama [gate | up].
  std::int64_t fc1_width() const { return arch == deck::Arch::llama ? 2 * ffn : ffn; }
  bool biases() const { return arch == deck::Arch::gpt2; }
};

/// Vocabulary rows of a tensor rank: the first one, and how many of its rows are not padding (0 if all are).
struct VocabRange {
  std::int64_t first = 0, valid = 0;
};
VocabRange vocab_range(std::int64_t vocab, int tensor, int tensor_rank);

tensor::DType dtype_of(deck::FloatType type);

}  // namespace shard8::model
