// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace shard8::comm {

/// From where on a collective is done in another way, with the same result.
struct Limits {
  /// Longest message; longer ones are cut, since MPI counts are ints.
  std::size_t message_bytes = std::size_t{1} << 30;
  /// Largest group whose ranks send to each other directly. In a larger one the number of messages
  /// would be the cost, and the library's collectives move the data.
  int direct_ranks = 32;
};

}  // namespace shard8::comm
