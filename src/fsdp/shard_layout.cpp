// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "fsdp/shard_layout.hpp"

#include <algorithm>

namespace shard8::fsdp {

ShardLayout ShardLayout::make(std::int64_t rows, int shards, std::int64_t granularity) {
  const std::int64_t even = (rows + shards - 1) / shards;
  return {rows, (even + granularity - 1) / granularity * granularity, shards};
}

std::int64_t ShardLayout::owned_rows(int rank) const {
  return std::clamp(rows - first_row(rank), std::int64_t{0}, rows_per_shard);
}

}  // namespace shard8::fsdp
