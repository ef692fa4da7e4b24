// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "comm/communicator.hpp"
#include "comm/nccl/sum_parts.hpp"

namespace shard8::comm::nccl {

/// What of a reduce-scatter lies `first` bytes from the beginning of an item's out, of the parts of all ranks.
inline void sum_item(cudaStream_t stream, const Communicator::ReduceScatterItem& item, std::size_t first,
                     std::size_t bytes, Parts parts) {
  if (!item.addend.empty()) parts.add(item.addend.data + first);
  sum_parts(stream, item.out.data + first, item.out.dtype,
            static_cast<std::int64_t>(bytes / tensor::size_of(item.out.dtype)), parts);
}

}  // namespace shard8::comm::nccl
