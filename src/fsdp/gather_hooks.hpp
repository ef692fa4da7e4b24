// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <span>

#include "fsdp/unit_shards.hpp"

namespace shard8::fsdp {

/// How the owner of the weights writes the pieces that a gather transfers and converts the pieces that arrived.
/// WeightStore calls each function at most once a gather, with the parameters that need it, in increasing order. It
/// does not call a function that no parameter needs. If a parameter has a copy for each pass, the copy that this gather
/// does not bring is empty.
struct GatherHooks {
  /// A parameter with Source::hook. `travel`: this rank's rows, padding included, (rows_per_shard / row_block, cols),
  /// which `before` must write.
  struct Own {
    int parameter = 0;
    CopyTensors travel;
  };
  std::function<void(int unit, std::span<const Own> own)> before;

  /// A parameter that is converted (ParameterPieces::converted). `travel`: all rows that were transferred. `compute`:
  /// all rows that kernels read, which `after` must write. Both are (rows / row_block, cols), without padding.
  struct Arrived {
    int parameter = 0;
    CopyTensors travel, compute;
  };
  std::function<void(int unit, std::span<const Arrived> arrived)> after;
};

}  // namespace shard8::fsdp
