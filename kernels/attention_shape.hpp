// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>

namespace shard8::kernels {

/// The extents of one call of attention. heads and kv_heads count the heads of one tensor rank; heads must be a
/// multiple of kv_heads. Query heads h·(heads/kv_heads) to (h+1)·(heads/kv_heads) − 1 share kv head h. There are T =
/// batch·seq tokens; the sequences follow one another.
struct AttentionShape {
  std::int64_t batch = 0, seq = 0, heads = 0, kv_heads = 0, head_dim = 0;
  /// Whether backward must give the same bits from run to run. On devices this takes memory and time; if false,
  /// backward may add in any order. Forward, and both directions on hosts, give the same bits whatever this says.
  bool deterministic = true;

  auto operator<=>(const AttentionShape&) const = default;
  std::int64_t tokens() const { return batch * seq; }
  /// Elements of one row of qkv: [q heads | k heads | v heads] of one token.
  std::int64_t qkv_columns() const { return (heads + 2 * kv_heads) * head_dim; }
};

}  // namespace shard8::kernels
