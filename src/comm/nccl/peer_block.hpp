// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comm/nccl/handshake.hpp"
#include "comm/nccl/ipc_block.hpp"
#include "comm/nccl/stream_flags.hpp"
#include "tensor/tensor.hpp"

namespace shard8::comm::nccl {

/// Memory of every rank of a group that the others can read and write. Into it they push by copy engines, all
/// copies of a call to peers at once, so that no multiprocessor is taken from kernels, or by kernels of a Handshake.
/// What stays on the rank is an ordinary copy of its device, after those. Peers are on one node.
///
/// Each call has a number. A rank tells every peer that its memory may be used (its stream has come to
/// the call), waits until all have told it so, does what the call does, tells every peer that it has, and
/// waits until all have. On every rank what is told is given to the stream before what is waited for, so
/// calls that ranks make in the same order cannot wait for each other.
class PeerBlock {
 public:
  /// Collective; throws AgreedError(environment) where it cannot be. Copies and waits go to `stream`.
  PeerBlock(const Communicator& group, std::size_t bytes, cudaStream_t stream);
  ~PeerBlock();
  PeerBlock(const PeerBlock&) = delete;
  PeerBlock& operator=(const PeerBlock&) = delete;

  /// Collective: nothing if ranks can push to each other, else why not.
  static std::optional<std::string> problem(const Communicator& group, cudaStream_t stream);

  int rank() const { return rank_; }
  int size() const { return size_; }
  std::byte* data() const { return block_.own(); }
  std::size_t bytes() const { return bytes_; }
  cudaStream_t stream() const { return stream_; }
  /// The k-th rank to push to: not all ranks turn to the same one at once. The last one (k = size) is this.
  int peer(int k) const { return (rank_ + k) % size_; }

  /// Adds a copy to the next push(): `bytes` from anywhere on the device to `offset` of a rank's memory, this one's
  /// too.
  void add(int to, std::size_t offset, const std::byte* from, std::size_t bytes);
  /// All copies that were added. What the stream is given then finds all ranks' bytes here.
  void push();
  /// Of the next call, for kernels that make it in place of push(); ExchangeKernels end it.
  Handshake handshake();
  /// A rank's memory, as this one reads and writes it.
  std::byte* of(int rank) const { return block_.of(rank); }
  bool holds(const tensor::Tensor& tensor) const {
    return tensor.empty() || (tensor.data >= data() && tensor.data + tensor.bytes() <= data() + bytes());
  }

 private:
  FlagAddress words(int of) const;
  void tell_and_await(Handshake::Word word);
  void copy();

  struct OwnCopy {
    std::byte* to;
    const std::byte* from;
    std::size_t bytes;
  };

  int rank_, size_;
  std::size_t bytes_;
  IpcBlock block_;
  cudaStream_t stream_;
  StreamFlags flags_;
  std::uint32_t number_ = 0;
  std::vector<void*> to_;
  std::vector<const void*> from_;
  std::vector<std::size_t> sizes_;
  std::vector<OwnCopy> own_;
};

}  // namespace shard8::comm::nccl
