// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace shard8::comm {

/// The order in which a sum adds the values x0, x1, … of a group's ranks. Numbers are added in fp32 in either order. An
/// addend that is no rank's value is always added last.
enum class SumOrder : std::uint8_t {
  ranks,  ///< ((x0 + x1) + x2) + …
  /// Pairs of neighbours are added, then pairs of pairs, and so on. A value without a neighbour goes on to the next
  /// level: for 7 ranks ((x0 + x1) + (x2 + x3)) + ((x4 + x5) + x6). If groups of n ranks, n a power of two, are summed
  /// as trees and their sums again as a tree, the result has the bits of one tree over all ranks.
  tree,
};

}  // namespace shard8::comm
