// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "comm/device.hpp"
#include "comm/nccl/exchange.hpp"
#include "comm/nccl/peer_block.hpp"

namespace shard8::comm::nccl {

/// Memory that every rank of a group can read and write, for what nothing hides. To gather tensors in it, one
/// kernel of every rank writes its rows to where they belong in all ranks' memory; to sum such, one reads its rows
/// of all of them. The kernels wait for each other themselves, in less time than streams do.
class ExchangeMemory final : public DeviceMemory {
 public:
  /// As PeerBlock.
  ExchangeMemory(const Communicator& group, std::size_t bytes, cudaStream_t stream);

  std::byte* data() const override { return block_.data(); }
  std::size_t bytes() const override { return block_.bytes(); }
  bool holds(const tensor::Tensor& tensor) const { return block_.holds(tensor); }
  /// As Communicator::all_gather_in_place, of tensors that it holds; `own` lies anywhere.
  void gather(std::span<const tensor::Tensor> whole, std::span<const tensor::Tensor> own);
  /// As Communicator::reduce_scatter of wholes that it holds, of at most kMostRanks ranks: in rank order and
  /// with sums in fp32, as on hosts.
  void reduce_scatter(std::span<const Communicator::ReduceScatterItem> items);

 private:
  PeerBlock block_;
  ExchangeKernels kernels_;
};

}  // namespace shard8::comm::nccl
