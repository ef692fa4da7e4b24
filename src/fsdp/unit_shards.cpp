// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "fsdp/unit_shards.hpp"

#include <algorithm>

namespace shard8::fsdp {

using tensor::DType;

bool UnitShards::gathers() const {
  return std::any_of(pieces.begin(), pieces.end(), [](const ParameterPieces& p) { return p.gathers(); });
}

bool UnitShards::two_copies() const {
  return std::any_of(pieces.begin(), pieces.end(), [](const ParameterPieces& p) { return p.two(); });
}

UnitShards make_shards(const UnitShape& unit, const Options& options, tensor::Arena& weights) {
  UnitShards shards;
  for (const ParameterShape& p : unit.parameters) {
    const ShardLayout layout = ShardLayout::make(p.rows, options.shards, p.granularity);
    const tensor::Shape shape{layout.rows_per_shard, p.cols};
    const ParameterPieces pieces = resolve(p, options);
    shards.master.push_back(weights.allocate(shape, master_dtype(options)));
    shards.remainder.push_back(options.master_remainder ? weights.allocate(shape, DType::i16) : tensor::Tensor{});
    shards.stored.push_back(p.stored ? allocate(pieces.travel, {}, layout.rows_per_shard, weights) : CopyTensors{});
    shards.layouts.push_back(layout);
    shards.pieces.push_back(pieces);
  }
  return shards;
}

}  // namespace shard8::fsdp
