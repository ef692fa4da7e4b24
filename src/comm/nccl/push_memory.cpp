// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/nccl/push_memory.hpp"

namespace shard8::comm::nccl {

bool PushMemory::holds(std::span<const tensor::Tensor> tensors) const {
  for (const tensor::Tensor& t : tensors) {
    if (t.empty()) continue;
    if (t.data < data() || t.data + t.bytes() > data() + bytes()) return false;
  }
  return true;
}

/// This rank's rows go to the same place in every rank's memory; to its own, where they are not there yet, last.
void PushMemory::gather(std::span<const tensor::Tensor> whole, std::span<const tensor::Tensor> own) {
  for (int k = 1; k <= block_.size(); ++k) {
    const int to = block_.peer(k);
    for (std::size_t i = 0; i < whole.size(); ++i) {
      const std::size_t shard = whole[i].bytes() / static_cast<std::size_t>(block_.size());
      const bool elsewhere = !own.empty() && !own[i].empty();
      if (shard == 0 || (to == block_.rank() && !elsewhere)) continue;
      const std::byte* const place = whole[i].data + static_cast<std::size_t>(block_.rank()) * shard;
      block_.add(to, static_cast<std::size_t>(place - data()), elsewhere ? own[i].data : place, shard);
    }
  }
  block_.push();
}

}  // namespace shard8::comm::nccl
