// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "comm/communicator.hpp"

namespace shard8::comm {

/// Those of an item's whole that are summed on `rank`.
inline std::byte* rows_of(const Communicator::ReduceScatterItem& item, int rank) {
  return item.whole.data + static_cast<std::size_t>(rank) * item.out.bytes();
}

}  // namespace shard8::comm
