// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "fsdp/pieces.hpp"
#include "fsdp/shard_layout.hpp"

namespace shard8::fsdp {

/// This rank's weights of one unit, kept from step to step; one entry a parameter.
struct UnitShards {
  std::vector<ShardLayout> layouts;
  std::vector<ParameterPieces> pieces;
  /// (rows_per_shard, cols) fp32; bf16 with Options::master_remainder, then with an i16 remainder.
  std::vector<tensor::Tensor> master, remainder;
  /// (rows_per_shard / row_block, cols) of each travelling piece; empty unless stored.
  std::vector<CopyTensors> stored;

  bool gathers() const;
  /// Some parameter has a copy for each pass.
  bool two_copies() const;
};

UnitShards make_shards(const UnitShape& unit, const Options& options, tensor::Arena& weights);

}  // namespace shard8::fsdp
