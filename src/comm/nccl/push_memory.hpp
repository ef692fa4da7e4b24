// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/device.hpp"
#include "comm/nccl/ipc_block.hpp"
#include "comm/nccl/stream_flags.hpp"

namespace shard8::comm::nccl {

/// Gather buffers whose shards every rank pushes to all others by copy engines: the rows of each tensor
/// go straight to where they belong in each peer's memory, all of a call at once, and no multiprocessor
/// is taken from kernels. Peers are on one node.
///
/// Each call has a number. A rank tells every peer that its buffers may be written to (its stream has
/// come to the call), waits until all have told it so, copies, tells every peer that its rows have
/// arrived, and waits until all of theirs have. On every rank what is told is given to the stream before
/// what is waited for, so calls that ranks make in the same order cannot wait for each other.
class PushMemory final : public DeviceMemory {
 public:
  /// Collective; throws AgreedError(environment) where it cannot be. Copies and waits go to `stream`.
  PushMemory(const Communicator& group, std::size_t bytes, cudaStream_t stream);
  ~PushMemory() override;

  /// Collective: nothing if ranks can push to each other, else why not.
  static std::optional<std::string> problem(const Communicator& group, cudaStream_t stream);

  std::byte* data() const override { return block_.own(); }
  std::size_t bytes() const override { return bytes_; }
  bool holds(std::span<const tensor::Tensor> tensors) const;
  /// As Communicator::all_gather_in_place, of tensors that it holds.
  void gather(std::span<const tensor::Tensor> whole);

 private:
  enum Flag { ready, arrived };
  FlagAddress flag(int of, Flag kind, int by) const;
  int peer(int k) const { return (rank_ + k) % size_; }
  void plan_copies(std::span<const tensor::Tensor> whole, int to);
  void copy();

  int rank_, size_;
  std::size_t bytes_;
  IpcBlock block_;
  cudaStream_t stream_;
  StreamFlags flags_;
  std::uint32_t number_ = 0;
  std::vector<void*> to_;
  std::vector<const void*> from_;
  std::vector<std::size_t> sizes_;
};

}  // namespace shard8::comm::nccl
