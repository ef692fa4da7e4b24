// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>

namespace shard8::kernels {

/// Heads are those of one tensor rank; tokens T = batch · seq, sequences one after the other.
struct AttentionShape {
  std::int64_t batch = 0, seq = 0, heads = 0, kv_heads = 0, head_dim = 0;
  /// Backward gives the same bits from run to run; on devices that costs memory and time. Forward, and everything on
  /// hosts, always gives the same bits.
  bool deterministic = true;

  auto operator<=>(const AttentionShape&) const = default;
  std::int64_t tokens() const { return batch * seq; }
  /// Elements of a token's row of [q heads | k heads | v heads].
  std::int64_t qkv_columns() const { return (heads + 2 * kv_heads) * head_dim; }
};

}  // namespace shard8::kernels
