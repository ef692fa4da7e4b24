// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "fsdp/pieces.hpp"

#include "base/error.hpp"

namespace shard8::fsdp {

using tensor::DType;
using tensor::Tensor;

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

/// The copies are the master shard, row by row.
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
  const bool one_shard = options.shards == 1;
  if (pieces.travel.empty()) {
    // With one shard nothing travels: rows are written at once as they are computed with.
    const bool at_once = one_shard && pieces.compute.empty();
    pieces.travel.forward = rows_of(parameter, at_once ? options.compute : options.gather);
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

}  // namespace shard8::fsdp
