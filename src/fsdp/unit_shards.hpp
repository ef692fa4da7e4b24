// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "fsdp/unit_shape.hpp"
#include "tensor/arena.hpp"

namespace shard8::fsdp {

/// How R rows are sharded over D ranks: each rank has rows_per_shard = roundup(ceil(R/D), granularity) rows. The last
/// ranks may own fewer rows or none; the rest of their shards is padding.
struct ShardLayout {
  std::int64_t rows = 0, rows_per_shard = 0;
  int shards = 1;

  static ShardLayout make(std::int64_t rows, int shards, std::int64_t granularity = 1);
  std::int64_t padded_rows() const { return rows_per_shard * shards; }
  std::int64_t first_row(int rank) const { return rank * rows_per_shard; }
  /// The rows of a rank's shard that are not padding.
  std::int64_t owned_rows(int rank) const;
};

/// Where a gather finds this rank's rows of the pieces that it transfers.
enum class Source : std::uint8_t {
  hook,      ///< GatherHooks::before writes them into the gather buffer
  stored,    ///< in the stored shards, from which the gather copies them
  in_place,  ///< one shard: nothing is transferred, the master or the stored tensors are used where they lie
};

/// How a parameter is gathered, with all defaults of ParameterShape filled in.
struct ParameterPieces {
  Copies travel, compute;
  Source source = Source::hook;

  /// Whether each pass has a copy of its own.
  bool two() const { return compute.two(); }
  /// Whether GatherHooks::after converts the pieces that were transferred into the pieces that kernels read.
  bool converted() const { return travel != compute; }
  /// Whether the parameter needs memory in a gather buffer. If not, kernels read the shards.
  bool gathers() const { return source != Source::in_place || converted(); }
};

/// The dtype of the master shards.
tensor::DType master_dtype(const Options& options);

/// Fills in the defaults. Throws Error(failed) if the rows or the shards of the parameter are not whole row blocks of
/// every piece (with the arithmetic), or if `parameter` breaks a rule of ParameterShape.
ParameterPieces resolve(const ParameterShape& parameter, const Options& options);

/// The tensors of Copies, one for each piece. One copy for both passes is `forward`. If each pass has a copy, the copy
/// that was not allocated or gathered is empty.
struct CopyTensors {
  std::vector<tensor::Tensor> forward, backward;
};

/// Allocates (rows / row_block, cols) for every piece. If each pass has a copy, `only` selects one of them.
CopyTensors allocate(const Copies& copies, std::optional<Pass> only, std::int64_t rows, tensor::Arena& arena);

/// Views of the items of rows [first, first + rows) of each tensor. `first` and `rows` must be whole row blocks.
CopyTensors slice(const CopyTensors& tensors, const Copies& copies, std::int64_t first, std::int64_t rows);

/// This rank's weights of one unit, which are kept from step to step. Each list has one entry for each parameter.
struct UnitShards {
  std::vector<ShardLayout> layouts;
  std::vector<ParameterPieces> pieces;
  /// `master` (rows_per_shard, cols) fp32. With Options::master_remainder `master` is bf16 and `remainder` i16 of the
  /// same shape; otherwise the entries of `remainder` are empty.
  std::vector<tensor::Tensor> master, remainder;
  /// (rows_per_shard / row_block, cols) for each piece that a gather transfers. Empty unless ParameterShape::stored.
  std::vector<CopyTensors> stored;

  /// Whether some parameter needs memory in a gather buffer.
  bool gathers() const;
  /// Whether some parameter has a copy for each pass.
  bool two_copies() const;
};

/// Lays out the shards of a unit in `weights`. Throws as resolve() does.
UnitShards make_shards(const UnitShape& unit, const Options& options, tensor::Arena& weights);

}  // namespace shard8::fsdp
