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

/// Memory of every rank of a group, which the other ranks can read and write. Ranks must be on one node. Ranks push
/// into it by copy engines, all copies of a call at once, so that no multiprocessor is taken from kernels; or kernels
/// with a Handshake use it. A copy within the rank is an ordinary copy of its device, after those to peers.
///
/// Each call has a number. A rank tells every peer that its stream has come to the call, so its memory may be used. It
/// waits until all peers have told it so, does the call's copies, tells every peer that they are done, and waits until
/// all peers have told it so. On every rank the stream tells before it waits. So calls that ranks make in the same
/// order cannot wait for each other.
class PeerBlock {
 public:
  /// Collective. Copies and waits run on `stream`. Throws AgreedError(environment) where ranks cannot share memory.
  PeerBlock(const Communicator& group, std::size_t bytes, cudaStream_t stream);
  ~PeerBlock();
  PeerBlock(const PeerBlock&) = delete;
  PeerBlock& operator=(const PeerBlock&) = delete;

  /// Why ranks cannot push to each other, or nothing if they can. Collective.
  static std::optional<std::string> problem(const Communicator& group, cudaStream_t stream);

  int rank() const { return rank_; }
  int size() const { return size_; }
  std::byte* data() const { return block_.own(); }
  std::size_t bytes() const { return bytes_; }
  cudaStream_t stream() const { return stream_; }
  /// The k-th rank to push to, k = 1 … size. Ranks begin with different peers. The last one is this rank.
  int peer(int k) const { return (rank_ + k) % size_; }

  /// Adds a copy to the next push(): `bytes` bytes, from anywhere on the device, to `offset` in the memory of rank
  /// `to`, which may be this rank.
  void add(int to, std::size_t offset, const std::byte* from, std::size_t bytes);
  /// Does all copies that were added. What the stream is given afterwards sees all ranks' bytes here.
  void push();
  /// The handshake of the next call, for kernels that do the call in place of push().
  Handshake handshake();
  /// The memory of `rank`, as this rank reads and writes it.
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
