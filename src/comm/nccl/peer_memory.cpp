// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/nccl/peer_memory.hpp"

#include "comm/rows.hpp"

namespace shard8::comm::nccl {

/// This rank's rows go to the same place in every rank's memory; to its own, where they are not there yet, last.
void PeerMemory::gather(std::span<const tensor::Tensor> whole, std::span<const tensor::Tensor> own) {
  for (int k = 1; k <= block_.size(); ++k) {
    const int to = block_.peer(k);
    for (std::size_t i = 0; i < whole.size(); ++i) {
      const OwnRows rows = own_rows(whole, own, i, block_.rank(), block_.size());
      if (rows.bytes == 0 || (to == block_.rank() && !rows.elsewhere())) continue;
      block_.add(to, static_cast<std::size_t>(rows.place - data()), rows.data, rows.bytes);
    }
  }
  block_.push();
}

}  // namespace shard8::comm::nccl
