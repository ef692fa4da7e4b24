// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "fsdp/unit_shards.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace shard8::fsdp {

using tensor::DType;
using tensor::Tensor;

ShardLayout ShardLayout::make(std::int64_t rows, int shards, std::int64_t granularity) {
  const std::int64_t even = (rows + shards - 1) / shards;
  return {rows, (even + granularity - 1) / granularity * granularity, shards};
}

std::int64_t ShardLayout::owned_rows(int rank) const {
  return std::clamp(rows - first_row(rank), std::int64_t{0}, rows_per_shard);
}

namespace {

using Pieces = std::vector<Piece>;

Pieces rows_of(const ParameterShape& parameter, DType dtype) { return {Piece{dtype, 1, parameter.cols}}; }

void require_whole_blocks(const ParameterShape& p, const Pieces& pieces) {
  for (const Piece& piece : pieces) {
    SHARD8_REQUIRE(p.rows % piece.row_block == 0,
                   "parameter '{}': {} rows are not whole blocks of {} rows ({} % {} = {})", p.name, p.rows,
                   piece.row_block, p.rows, piece.row_block, p.rows % piece.row_block);
    SHARD8_REQUIRE(p.granularity % piece.row_block == 0,
                   "parameter '{}': shards of multiples of {} rows would cut blocks of {} rows ({} % {} = {})", p.name,
                   p.granularity, piece.row_block, p.granularity, piece.row_block, p.granularity % piece.row_block);
  }
}

/// Whether the pieces of every copy are the rows of the master shard.
bool are_master(const Copies& copies, const ParameterShape& parameter, const Options& options) {
  const Pieces master = rows_of(parameter, master_dtype(options));
  return copies.forward == master && (!copies.two() || copies.backward == master);
}

std::vector<Tensor> allocate(const Pieces& pieces, std::int64_t rows, tensor::Arena& arena) {
  std::vector<Tensor> tensors;
  for (const Piece& piece : pieces)
    tensors.push_back(arena.allocate({rows / piece.row_block, piece.cols}, piece.dtype));
  return tensors;
}

std::vector<Tensor> slice(const std::vector<Tensor>& tensors, const Pieces& pieces, std::int64_t first,
                          std::int64_t rows) {
  std::vector<Tensor> parts;
  for (std::size_t i = 0; i < tensors.size(); ++i)
    parts.push_back(tensors[i].slice(first / pieces[i].row_block, rows / pieces[i].row_block));
  return parts;
}

}  // namespace

DType master_dtype(const Options& options) { return options.master_remainder ? DType::bf16 : DType::fp32; }

ParameterPieces resolve(const ParameterShape& parameter, const Options& options) {
  ParameterPieces pieces{parameter.travel, parameter.compute};
  const bool one_shard = options.place.mesh().ranks(parameter.sharing.sharded) == 1;
  if (pieces.travel.empty()) {
    // With one shard nothing is transferred, so the hook writes the dtype that kernels read.
    const bool in_compute_dtype = one_shard && pieces.compute.empty();
    pieces.travel.forward = rows_of(parameter, in_compute_dtype ? options.compute : options.gather);
    if (pieces.compute.empty()) pieces.compute.forward = rows_of(parameter, options.compute);
  }
  if (pieces.compute.empty()) pieces.compute = pieces.travel;
  SHARD8_REQUIRE(pieces.compute.two() || !pieces.travel.two(),
                 "parameter '{}' travels in two copies but is computed with in one", parameter.name);
  SHARD8_REQUIRE(!parameter.stored || !parameter.travel.empty(),
                 "parameter '{}' is stored, but no pieces are given to be stored", parameter.name);
  for (const Copies* copies : {&pieces.travel, &pieces.compute}) {
    require_whole_blocks(parameter, copies->forward);
    require_whole_blocks(parameter, copies->backward);
  }
  if (one_shard && (parameter.stored || are_master(pieces.travel, parameter, options)))
    pieces.source = Source::in_place;
  else if (parameter.stored)
    pieces.source = Source::stored;
  return pieces;
}

CopyTensors allocate(const Copies& copies, std::optional<Pass> only, std::int64_t rows, tensor::Arena& arena) {
  CopyTensors tensors;
  if (!copies.two() || only != Pass::backward) tensors.forward = allocate(copies.forward, rows, arena);
  if (copies.two() && only != Pass::forward) tensors.backward = allocate(copies.backward, rows, arena);
  return tensors;
}

CopyTensors slice(const CopyTensors& tensors, const Copies& copies, std::int64_t first, std::int64_t rows) {
  return {slice(tensors.forward, copies.forward, first, rows), slice(tensors.backward, copies.backward, first, rows)};
}

bool UnitShards::gathers() const {
  return std::any_of(pieces.begin(), pieces.end(), [](const ParameterPieces& p) { return p.gathers(); });
}

bool UnitShards::two_copies() const {
  return std::any_of(pieces.begin(), pieces.end(), [](const ParameterPieces& p) { return p.two(); });
}

UnitShards make_shards(const UnitShape& unit, const Options& options, tensor::Arena& weights) {
  UnitShards shards;
  for (const ParameterShape& p : unit.parameters) {
    const ShardLayout layout = ShardLayout::make(p.rows, options.place.mesh().ranks(p.sharing.sharded), p.granularity);
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
