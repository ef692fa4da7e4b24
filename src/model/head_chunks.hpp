// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "model/dims.hpp"

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

}  // namespace shard8::model
