// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "comm/device.hpp"
#include "comm/nccl/peer_block.hpp"

namespace shard8::comm::nccl {

/// Memory that every rank of a group can write to. To gather tensors in it, the copy engines of every rank push its
/// rows to their places in each peer's memory.
class PeerMemory final : public DeviceMemory {
 public:
  /// Collective; see PeerBlock.
  PeerMemory(const Communicator& group, std::size_t bytes, cudaStream_t stream) : block_(group, bytes, stream) {}

  std::byte* data() const override { return block_.data(); }
  std::size_t bytes() const override { return block_.bytes(); }
  bool holds(const tensor::Tensor& tensor) const { return block_.holds(tensor); }
  /// See Communicator::all_gather_in_place. Tensors of `whole` must lie in this memory; those of `own` may lie
  /// anywhere.
  void gather(std::span<const tensor::Tensor> whole, std::span<const tensor::Tensor> own);

 private:
  PeerBlock block_;
};

}  // namespace shard8::comm::nccl
