// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tensor/dtype.hpp"

namespace shard8::fsdp {

/// One array of a gathered parameter of R rows: (R / row_block, cols) items of `dtype`. Shards are cut
/// at whole row blocks, so each rank's items are contiguous.
struct Piece {
  tensor::DType dtype = tensor::DType::fp32;
  std::int64_t row_block = 1;
  std::int64_t cols = 1;
  bool operator==(const Piece&) const = default;
};

/// What a parameter consists of where it is whole. With `backward` empty the same pieces serve both
/// passes; else forward and backward have a copy each.
struct Copies {
  std::vector<Piece> forward, backward;
  bool empty() const { return forward.empty(); }
  bool two() const { return !backward.empty(); }
  bool operator==(const Copies&) const = default;
};

enum class Pass : std::uint8_t { forward, backward };

/// One use of a unit in a step.
struct Visit {
  int unit = 0;
  Pass pass = Pass::forward;
};

/// One parameter of a unit, this tensor rank's part: `rows` are cut over the shard group.
struct ParameterShape {
  std::string name;
  std::int64_t rows = 0, cols = 1;
  std::int64_t granularity = 1;  ///< shard boundaries are multiples of it
  /// The first contribution to its gradient overwrites it (a GEMM), so it need not be cleared.
  bool gradient_overwritten = false;
  bool vector = false;  ///< shown and updated as one dimension (cols == 1)
  /// What travels in a gather and what is computed with, where it is not rows of Options::gather
  /// and rows of Options::compute. `compute` empty: what travels. What travels may have two copies
  /// only if what is computed with has.
  Copies travel{}, compute{};
  /// What travels lies in shards of its own (UnitBuffers::stored), kept from step to step.
  bool stored = false;
};

/// What is gathered and reduced at once.
struct UnitShape {
  std::string name;
  std::vector<ParameterShape> parameters;
  /// A layer: in use once in forward and once in backward, when its gradient is summed.
  bool rotating = false;
  /// Not a layer, and used once in a micro-batch, as its gradient is summed once: the embedding and the root, unless
  /// the table is tied, which both the embedding and the head use.
  bool single_use = false;
};

struct Options {
  int shards = 1;
  int replicas = 1;
  int prefetch = 1;                             ///< units gathered ahead of the one in use
  bool reshard_after_forward = true;            ///< false: every unit has a buffer and stays gathered
  bool accumulate = false;                      ///< more than one micro-batch: unreduced gradients are kept
  tensor::DType compute = tensor::DType::fp32;  ///< dtype of the weights in use
  tensor::DType gather = tensor::DType::fp32;   ///< dtype that travels
  tensor::DType reduce = tensor::DType::fp32;   ///< dtype in which gradients are reduced
  /// Master shards are bf16 weights with a 16-bit remainder beside them, in place of fp32.
  bool master_remainder = false;
};

}  // namespace shard8::fsdp
