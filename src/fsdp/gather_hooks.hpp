// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <span>

#include "fsdp/pieces.hpp"

namespace shard8::fsdp {

/// What the owner of the bytes does around a gather. Each is called once a gather with the parameters
/// that need it, in order, and not at all if none does. Of a parameter with two copies those are
/// given that this gather brings, the other is empty.
struct GatherHooks {
  /// This rank's rows of what travels, with its padding: (rows_per_shard / row_block, cols), to be
  /// filled. Not asked for what is stored, nor for a master that is computed with where it lies.
  struct Own {
    int parameter = 0;
    CopyTensors travel;
  };
  std::function<void(int unit, std::span<const Own> own)> before;

  /// All rows of what travelled and, to be filled, of what is computed with, both without padding:
  /// (rows / row_block, cols). Asked where they differ.
  struct Arrived {
    int parameter = 0;
    CopyTensors travel, compute;
  };
  std::function<void(int unit, std::span<const Arrived> arrived)> after;
};

}  // namespace shard8::fsdp
