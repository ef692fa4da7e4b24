// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "comm/device.hpp"
#include "comm/nccl/peer_block.hpp"

namespace shard8::comm::nccl {

/// Memory that every rank of a group can read and write. To gather tensors in it, every rank pushes its rows
/// straight to where they belong in each peer's memory; to sum such, it reads its rows of all of them.
class PeerMemory final : public DeviceMemory {
 public:
  /// As PeerBlock.
  PeerMemory(const Communicator& group, std::size_t bytes, cudaStream_t stream) : block_(group, bytes, stream) {}

  std::byte* data() const override { return block_.data(); }
  std::size_t bytes() const override { return block_.bytes(); }
  cudaStream_t stream() const { return block_.stream(); }
  bool holds(const tensor::Tensor& tensor) const;
  /// As Communicator::all_gather_in_place, of tensors that it holds; `own` lies anywhere.
  void gather(std::span<const tensor::Tensor> whole, std::span<const tensor::Tensor> own);
  /// As Communicator::reduce_scatter of wholes that it holds, of at most kMostRanks ranks: in rank order and
  /// with sums in fp32, as on hosts.
  void reduce_scatter(std::span<const Communicator::ReduceScatterItem> items);

 private:
  PeerBlock block_;
};

}  // namespace shard8::comm::nccl
