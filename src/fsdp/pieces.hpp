// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "fsdp/unit_shape.hpp"
#include "tensor/arena.hpp"

namespace shard8::fsdp {

/// Where this rank's rows of what travels come from.
enum class Source : std::uint8_t {
  hook,      ///< GatherHooks::before fills them
  stored,    ///< the stored shards are copied
  in_place,  ///< one shard: the master or the stored tensors are themselves what would travel
};

/// How a parameter is gathered, all defaults resolved.
struct ParameterPieces {
  Copies travel, compute;
  Source source = Source::hook;

  bool two() const { return compute.two(); }
  /// What is computed with is made of what travelled (GatherHooks::after).
  bool converted() const { return travel != compute; }
  /// False: it lies ready to be computed with.
  bool gathers() const { return source != Source::in_place || converted(); }
};

/// Of the master shards.
tensor::DType master_dtype(const Options& options);

/// Throws Error(failed) with the arithmetic when rows or shards are not whole row blocks of a piece.
ParameterPieces resolve(const ParameterShape& parameter, const Options& options);

/// Tensors of Copies. Of two copies that which is not there is empty; one for both passes is `forward`.
struct CopyTensors {
  std::vector<tensor::Tensor> forward, backward;
};

/// Tensors (rows / row_block, cols) of every piece; of two copies those of `only` one pass, or both.
CopyTensors allocate(const Copies& copies, std::optional<Pass> only, std::int64_t rows, tensor::Arena& arena);

/// Of each tensor the items of rows [first, first + rows).
CopyTensors slice(const CopyTensors& tensors, const Copies& copies, std::int64_t first, std::int64_t rows);

}  // namespace shard8::fsdp
