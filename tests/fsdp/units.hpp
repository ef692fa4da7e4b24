// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "fsdp/unit_shape.hpp"

namespace shard8::tests {

inline constexpr int kLayers = 4;
inline constexpr int kEmbedding = 0;
inline constexpr int kRoot = kLayers + 1;

/// An embedding, equal layers, a root: vectors and matrices whose rows divide by nothing, fewer
/// than ranks too.
inline std::vector<fsdp::UnitShape> small_units() {
  std::vector<fsdp::UnitShape> units;
  units.push_back({"embedding", {{"table", 11, 6, 1, false, false}}, false});
  for (int l = 0; l < kLayers; ++l)
    units.push_back({"layer",
                     {{"norm", 7, 1, 1, false, true}, {"fc1", 13, 6, 1, true, false}, {"narrow", 2, 9, 1, true, false}},
                     true});
  units.push_back({"root", {{"norm", 1, 1, 1, false, true}, {"head", 10, 6, 1, true, false}}, false});
  return units;
}

/// Uses of units in a step, as a model with an embedding of its own makes them.
inline std::vector<int> visits(int micro_batches, bool tied = false) {
  std::vector<int> order;
  for (int m = 0; m < micro_batches; ++m) {
    order.push_back(tied ? kRoot : kEmbedding);
    for (int l = 1; l <= kLayers; ++l) order.push_back(l);
    if (!tied) order.push_back(kRoot);
    for (int l = kLayers; l >= 1; --l) order.push_back(l);
  }
  return order;
}

}  // namespace shard8::tests
