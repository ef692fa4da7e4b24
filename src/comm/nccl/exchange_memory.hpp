// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "comm/device.hpp"
#include "comm/nccl/exchange.hpp"
#include "comm/nccl/peer_block.hpp"

namespace shard8::comm::nccl {

/// Memory that every rank of a group can read and write, for collectives that no compute hides. To gather tensors in
/// it, one kernel of each rank writes the rank's rows to their places in all ranks' memory. To reduce tensors in it,
/// one kernel of each rank reads the rank's rows in all ranks' memory and sums them. These kernels wait for each other
/// themselves, which takes less time than waits of streams.
class ExchangeMemory final : public DeviceMemory {
 public:
  /// Collective; see PeerBlock.
  ExchangeMemory(const Communicator& group, std::size_t bytes, cudaStream_t stream);

  std::byte* data() const override { return block_.data(); }
  std::size_t bytes() const override { return block_.bytes(); }
  bool holds(const tensor::Tensor& tensor) const { return block_.holds(tensor); }
  /// See Communicator::all_gather_in_place. Tensors of `whole` must lie in this memory; those of `own` may lie
  /// anywhere.
  void gather(std::span<const tensor::Tensor> whole, std::span<const tensor::Tensor> own);
  /// See Communicator::reduce_scatter. Wholes must lie in this memory, and the group has at most kMostRanks ranks. Sums
  /// are in fp32 in rank order, as on hosts.
  void reduce_scatter(std::span<const Communicator::ReduceScatterItem> items);

 private:
  PeerBlock block_;
  ExchangeKernels kernels_;
};

}  // namespace shard8::comm::nccl
