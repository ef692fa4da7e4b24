// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace shard8::fsdp {

/// How R rows are cut over D shard ranks: each has rows_per_shard = roundup(ceil(R/D), granularity)
/// rows; the last ones may own fewer or none, their rest is padding.
struct ShardLayout {
  std::int64_t rows = 0, rows_per_shard = 0;
  int shards = 1;

  static ShardLayout make(std::int64_t rows, int shards, std::int64_t granularity = 1);
  std::int64_t padded_rows() const { return rows_per_shard * shards; }
  std::int64_t first_row(int rank) const { return rank * rows_per_shard; }
  /// Rows that are not padding.
  std::int64_t owned_rows(int rank) const;
};

}  // namespace shard8::fsdp
