// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/error.hpp"
#include "fsdp/unit_shape.hpp"
#include "tensor/tensor.hpp"

namespace shard8::fsdp {

/// One parameter to compute with: views (rows / row_block, cols) of its pieces without padding, (rows)
/// of a vector. Where one copy serves both passes both are set; of two that which is not there is
/// empty.
struct Gathered {
  std::vector<tensor::Tensor> forward, backward;

  /// The copy of a pass; throws when it is not there.
  const std::vector<tensor::Tensor>& of(Pass pass) const {
    const auto& copy = pass == Pass::forward ? forward : backward;
    SHARD8_REQUIRE(!copy.empty(), "the copy for the {} pass is not gathered, only the other",
                   pass == Pass::forward ? "forward" : "backward");
    return copy;
  }
};

/// Tells whether a gathered copy is still the one that was handed out: its buffer has not been
/// gathered into again, and no step has begun since.
struct CopyStamp {
  const std::uint64_t* generation = nullptr;  ///< of the buffer, live
  std::uint64_t at_gather = 0;
  bool current() const { return generation != nullptr && *generation == at_gather; }
};

/// A unit in use. Valid as long as its stamp is current.
struct GatheredUnit {
  std::span<const Gathered> parameters;
  CopyStamp stamp;

  const Gathered& operator[](std::size_t parameter) const { return parameters[parameter]; }
};

}  // namespace shard8::fsdp
