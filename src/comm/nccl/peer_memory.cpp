// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/nccl/peer_memory.hpp"

#include "comm/item_rows.hpp"
#include "comm/nccl/sum_item.hpp"
#include "comm/own_rows.hpp"

namespace shard8::comm::nccl {

bool PeerMemory::holds(const tensor::Tensor& tensor) const {
  return tensor.empty() || (tensor.data >= data() && tensor.data + tensor.bytes() <= data() + bytes());
}

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

void PeerMemory::reduce_scatter(std::span<const Communicator::ReduceScatterItem> items) {
  block_.exchange([&] {
    for (const auto& item : items) {
      const std::ptrdiff_t rows = rows_of(item, block_.rank()) - data();
      Parts parts;
      for (int r = 0; r < block_.size(); ++r) parts.add(block_.of(r) + rows);
      sum_item(block_.stream(), item, 0, item.out.bytes(), parts);
    }
  });
}

}  // namespace shard8::comm::nccl
