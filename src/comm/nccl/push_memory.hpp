// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "comm/device.hpp"
#include "comm/nccl/push_block.hpp"

namespace shard8::comm::nccl {

/// Gather buffers whose shards every rank pushes to all others: the rows of each tensor go straight to
/// where they belong in each peer's memory.
class PushMemory final : public DeviceMemory {
 public:
  /// As PushBlock.
  PushMemory(const Communicator& group, std::size_t bytes, cudaStream_t stream) : block_(group, bytes, stream) {}

  std::byte* data() const override { return block_.data(); }
  std::size_t bytes() const override { return block_.bytes(); }
  bool holds(std::span<const tensor::Tensor> tensors) const;
  /// As Communicator::all_gather_in_place, of tensors that it holds; `own` lies anywhere.
  void gather(std::span<const tensor::Tensor> whole, std::span<const tensor::Tensor> own);

 private:
  PushBlock block_;
};

}  // namespace shard8::comm::nccl
