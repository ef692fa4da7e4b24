// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "comm/communicator.hpp"
#include "comm/peer/sum_parts.hpp"

namespace shard8::comm::peer {

/// Sums `bytes` bytes of an item of a reduce-scatter, from byte `first` of its out on. `parts` are all ranks' parts of
/// these bytes; the item's addend is added last.
inline void sum_item(cudaStream_t stream, const Communicator::ReduceScatterItem& item, std::size_t first,
                     std::size_t bytes, Parts parts) {
  if (!item.addend.empty()) parts.add(item.addend.data + first);
  sum_parts(stream, item.out.data + first, item.out.dtype,
            static_cast<std::int64_t>(bytes / tensor::size_of(item.out.dtype)), parts);
}

}  // namespace shard8::comm::peer
