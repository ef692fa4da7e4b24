// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comm/nccl/ipc_block.hpp"
#include "comm/nccl/stream_flags.hpp"

namespace shard8::comm::nccl {

/// Memory of every rank of a group into which the others push by copy engines, all copies of a call at
/// once, so that no multiprocessor is taken from kernels. Peers are on one node.
///
/// Each call has a number. A rank tells every peer that its memory may be written to (its stream has
/// come to the call), waits until all have told it so, copies, tells every peer that its bytes have
/// arrived, and waits until all of theirs have. On every rank what is told is given to the stream before
/// what is waited for, so calls that ranks make in the same order cannot wait for each other.
class PushBlock {
 public:
  /// Collective; throws AgreedError(environment) where it cannot be. Copies and waits go to `stream`.
  PushBlock(const Communicator& group, std::size_t bytes, cudaStream_t stream);
  ~PushBlock();
  PushBlock(const PushBlock&) = delete;
  PushBlock& operator=(const PushBlock&) = delete;

  /// Collective: nothing if ranks can push to each other, else why not.
  static std::optional<std::string> problem(const Communicator& group, cudaStream_t stream);

  int rank() const { return rank_; }
  int size() const { return size_; }
  std::byte* data() const { return block_.own(); }
  std::size_t bytes() const { return bytes_; }
  cudaStream_t stream() const { return stream_; }
  /// The k-th rank to push to: not all ranks turn to the same one at once. The last one (k = size) is this.
  int peer(int k) const { return (rank_ + k) % size_; }

  /// Adds a copy to the next push(): `bytes` from anywhere on the device to `offset` of a rank's memory.
  void add(int to, std::size_t offset, const std::byte* from, std::size_t bytes);
  /// All copies that were added. What the stream is given then finds all ranks' bytes here.
  void push();

 private:
  enum Flag { ready, arrived };
  FlagAddress flag(int of, Flag kind, int by) const;
  void tell_and_await(Flag kind);
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
