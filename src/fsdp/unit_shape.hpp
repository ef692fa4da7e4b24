// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/axes.hpp"
#include "tensor/dtype.hpp"

namespace shard8::fsdp {

/// One array of a parameter of R rows: (R / row_block, cols) items of `dtype`. Shard boundaries are multiples of
/// row_block rows, so the items of one rank are contiguous.
struct Piece {
  tensor::DType dtype = tensor::DType::fp32;
  std::int64_t row_block = 1;
  std::int64_t cols = 1;
  bool operator==(const Piece&) const = default;
};

/// The pieces of a parameter. If `backward` is empty, the pieces `forward` are one copy for both passes. Otherwise each
/// pass has a copy of its own.
struct Copies {
  std::vector<Piece> forward, backward;
  bool empty() const { return forward.empty(); }
  bool two() const { return !backward.empty(); }
  bool operator==(const Copies&) const = default;
};

enum class Pass : std::uint8_t { forward, backward };

/// One use of a unit in a step, from acquire to release.
struct Visit {
  int unit = 0;
  Pass pass = Pass::forward;
};

/// One parameter of a unit: the part (rows, cols) with which this rank computes. Its rows are sharded.
struct ParameterShape {
  std::string name;
  std::int64_t rows = 0, cols = 1;
  std::int64_t granularity = 1;  ///< rows_per_shard is a multiple of it
  /// The first gradient of a step overwrites the gradient buffer (a GEMM), so the buffer is not cleared.
  bool gradient_overwritten = false;
  bool vector = false;  ///< gathered and updated as one dimension; cols is 1
  /// `travel`: the pieces that a gather transfers. Empty: rows of Options::gather.
  /// `compute`: the pieces that kernels read. Empty: the pieces of `travel`, or rows of Options::compute if `travel` is
  /// empty, too. `travel` may have two copies only if `compute` has two.
  Copies travel{}, compute{};
  /// The pieces of `travel` are kept as shards from step to step (UnitBuffers::stored). Needs `travel`.
  bool stored = false;
  base::Sharing sharing{};
};

/// Parameters that are gathered at once and whose gradients are reduced at once: all have the same Sharing::sharded and
/// Sharing::summed().
struct UnitShape {
  std::string name;
  std::vector<ParameterShape> parameters;
  /// A layer: used in forward and in backward of each micro-batch. Its gradient is summed in backward.
  bool rotating = false;
  /// Not a layer. Used once in a micro-batch, and its gradient is summed once: the embedding, and the root unless the
  /// table is tied. Both the embedding and the head use a tied table.
  bool single_use = false;

  base::Sharing sharing() const { return parameters.empty() ? base::Sharing{} : parameters.front().sharing; }
};

struct Options {
  base::Place place{};                          ///< of this rank
  int prefetch = 1;                             ///< how many of the next visits are gathered ahead
  bool reshard_after_forward = true;            ///< false: every unit has a slot of its own and stays gathered
  bool accumulate = false;                      ///< several micro-batches: every unit keeps its unsharded gradients
  tensor::DType compute = tensor::DType::fp32;  ///< of weights that kernels read
  tensor::DType gather = tensor::DType::fp32;   ///< of weights that a gather transfers
  tensor::DType reduce = tensor::DType::fp32;   ///< of gradients that a reduction transfers
  /// Master shards are bf16 weights and 16-bit remainders, in place of fp32.
  bool master_remainder = false;
};

}  // namespace shard8::fsdp
