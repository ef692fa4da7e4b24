// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>

#include "model/dims.hpp"
#include "model/sequence_parallel.hpp"

namespace shard8::model {

/// How the head cuts the tokens of a micro-batch into chunks. The logits of one chunk are in memory at a time. In a
/// group of several ranks a chunk has all tokens of one or more ranks, or a part of the tokens of one.
struct HeadChunks {
  std::int64_t tokens = 0, local = 0;  ///< Dims::tokens(), Dims::tokens_local()
  std::int64_t most = 0;               ///< tokens of the largest chunk

  static HeadChunks make(const Dims& dims);

  /// Tokens of the chunk that begins with token `first`.
  std::int64_t size(std::int64_t first) const {
    const std::int64_t end = most < local ? (first / local + 1) * local : tokens;
    return std::min(most, end - first);
  }
  /// Whether the chunk is the last one.
  bool last(std::int64_t first) const { return first + size(first) == tokens; }
  /// Tokens of each rank that a direct gather of the head's input brings first: those that the first chunk needs.
  std::int64_t gathered_first() const { return std::min(most, local); }
  /// Whether a device whose gathers are direct writes each rank's tokens where they are gathered. If the first gather
  /// brings only a part of them, a norm then computes each part by itself. The parts are multiples of 128 tokens, so
  /// that the norm's kernels compute them as they compute all tokens at once.
  bool normed_in_place() const { return gathered_first() == local || (most % 128 == 0 && local % 128 == 0); }
  /// Tokens in a product of one rank's tokens, for a chunk of `n` tokens.
  std::int64_t of_a_rank(std::int64_t n) const { return std::min(n, local); }
};

/// The head's input of all tokens, gathered from the tensor group, as the head's chunks read it.
///
/// With the methods direct and ring two gathers begin at once. The first one brings the tokens of each rank that the
/// first chunk needs (HeadChunks::gathered_first); they are multiplied as they arrive. The second one brings the other
/// tokens, if there are any, while the first chunk is computed. Later chunks cannot follow the order of arrival: each
/// rank has a part of the vocabulary, so all ranks compute the same tokens at the same time.
class HeadInput {
 public:
  /// Multiplies tokens x (k, H) of a chunk, which are rows `row` … `row` + k − 1 of it.
  using Multiply = std::function<void(std::int64_t row, const tensor::Tensor& x)>;

  /// This rank's tokens: those of the first gather, and the others.
  struct Own {
    tensor::Tensor first, others;
  };
  /// Where to write this rank's tokens (T_local, H) before they are gathered into `whole` (tokens, H): in `whole`
  /// itself on devices whose exchange is not off, if HeadChunks::normed_in_place(). A copy there would wait until the
  /// device's multiprocessors are free of products. Otherwise in `local` (T_local, H), where the tokens lie one behind
  /// the other.
  static Own own(const Context& context, const TensorExchange& exchange, const HeadChunks& chunks,
                 const tensor::Tensor& whole, const tensor::Tensor& local);

  /// Gathers `own` into `whole` (tokens, H), which the caller holds. Unless the exchange is off, the gathers only
  /// begin; then `own` must not change until the second chunk is computed. With one tensor rank `whole` is not used.
  HeadInput(const Context& context, const TensorExchange& exchange, const HeadChunks& chunks,
            const tensor::Tensor& whole, const Own& own);

  /// Passes every token of the chunk that begins with token `first` once. Called for each chunk, in order. On hosts x
  /// has tokens of one rank, whatever the method is, so that the method does not change the bits of the products.
  void forward(const Context& context, std::int64_t first, const Multiply& multiply);
  /// The tokens (n, H) of the chunk for which forward() was called last.
  tensor::Tensor chunk(std::int64_t first) const { return whole_.slice(place(first), chunks_.size(first)); }

 private:
  void forward_as_they_arrive(const Context& context, const Multiply& multiply);
  /// The row of `whole_` in which a token lies.
  std::int64_t place(std::int64_t token) const;

  HeadChunks chunks_;
  int splits_;
  tensor::Tensor whole_;
  std::int64_t first_;                     ///< tokens of each rank at the beginning of whole_; the others follow
  std::optional<GatheringByParts> parts_;  ///< of these tokens
  std::optional<Gathering> others_;
};

}  // namespace shard8::model
