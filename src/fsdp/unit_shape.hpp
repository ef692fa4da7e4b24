// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tensor/dtype.hpp"

namespace shard8::fsdp {

/// One parameter of a unit, this tensor rank's part: `rows` are cut over the shard group.
struct ParameterShape {
  std::string name;
  std::int64_t rows = 0, cols = 1;
  std::int64_t granularity = 1;  ///< shard boundaries are multiples of it
  /// The first contribution to its gradient overwrites it (a GEMM), so it need not be cleared.
  bool gradient_overwritten = false;
  bool vector = false;  ///< shown and updated as one dimension (cols == 1)
};

/// What is gathered and reduced at once.
struct UnitShape {
  std::string name;
  std::vector<ParameterShape> parameters;
  /// Layers share the rotating buffers; the embedding and the root have buffers of their own.
  bool rotating = false;
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
};

}  // namespace shard8::fsdp
