// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "comm/device.hpp"
#include "comm/nccl/peer_block.hpp"

namespace shard8::comm::nccl {

/// Memory that every rank of a group can write to. To gather tensors in it, every rank pushes its rows straight to
/// where they belong in each peer's memory, by copy engines.
class PeerMemory final : public DeviceMemory {
 public:
  /// As PeerBlock.
  PeerMemory(const Communicator& group, std::size_t bytes, cudaStream_t stream) : block_(group, bytes, stream) {}

  std::byte* data() const override { return block_.data(); }
  std::size_t bytes() const override { return block_.bytes(); }
  bool holds(const tensor::Tensor& tensor) const { return block_.holds(tensor); }
  /// As Communicator::all_gather_in_place, of tensors that it holds; `own` lies anywhere.
  void gather(std::span<const tensor::Tensor> whole, std::span<const tensor::Tensor> own);

 private:
  PeerBlock block_;
};

}  // namespace shard8::comm::nccl
