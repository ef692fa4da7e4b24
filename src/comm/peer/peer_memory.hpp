// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <utility>

#include "comm/describe.hpp"
#include "comm/device.hpp"
#include "comm/peer/peer_block.hpp"
#include "comm/peer/sum_parts.hpp"

namespace shard8::comm::peer {

/// Memory that every rank of a group can write to, for gathers that run while kernels compute. To gather tensors in
/// this memory, the copy engines of every rank push the rank's rows to their places in each peer's memory.
class PeerMemory final : public DeviceMemory {
 public:
  /// Collective; see PeerBlock.
  PeerMemory(const Communicator& group, std::size_t bytes, cudaStream_t stream) : block_(group, bytes, stream) {}

  std::byte* data() const override { return block_.data(); }
  std::size_t bytes() const override { return block_.bytes(); }
  bool holds(const tensor::Tensor& tensor) const { return block_.holds(tensor); }
  /// See Communicator::all_gather_in_place. Tensors of `whole` must lie in this memory; those of `own` may lie
  /// anywhere.
  void gather(std::span<const tensor::Tensor> whole, std::span<const tensor::Tensor> own,
              Communicator::OwnPart own_part);
  /// As gather, but waits for no peer: await_part() does. The peers' parts arrive one after the other. This rank's rows
  /// are not copied: copy_own() does.
  void gather_parts(std::span<const tensor::Tensor> whole, std::span<const tensor::Tensor> own);
  /// What the stream is given afterwards sees the rows of `peer`. Must be called for every peer before the next gather.
  void await_part(int peer) { block_.await_part(peer); }
  /// See Communicator::all_gather_columns.
  void gather_columns(const tensor::Tensor& whole, const tensor::Tensor& own, Communicator::OwnPart own_part);
  /// Copies this rank's rows to their places, where they are not there yet.
  void copy_own(std::span<const tensor::Tensor> whole, std::span<const tensor::Tensor> own);
  /// What a watchdog's thread reads of the next gather, in parts or not, to find out which peers are late.
  CallWords next_call() const { return block_.next_call(); }

 private:
  void add_rows(int to, std::span<const tensor::Tensor> whole, std::span<const tensor::Tensor> own);

  PeerBlock block_;
};

/// Memory that every rank of a group can read and write, for collectives that no kernel hides. To gather tensors in
/// this memory, one kernel of each rank writes the rank's rows to their places in all ranks' memory. To reduce tensors
/// in this memory, one kernel of each rank reads the rank's rows in all ranks' memory and sums them. The kernels wait
/// for each other, which takes less time than waits of streams.
class ExchangeMemory final : public DeviceMemory {
 public:
  /// Collective; see PeerBlock.
  ExchangeMemory(const Communicator& group, std::size_t bytes, cudaStream_t stream);

  std::byte* data() const override { return block_.data(); }
  std::size_t bytes() const override { return block_.bytes(); }
  bool holds(const tensor::Tensor& tensor) const { return block_.holds(tensor); }
  /// As PeerMemory::gather. The kernels also write this rank's part.
  void gather(std::span<const tensor::Tensor> whole, std::span<const tensor::Tensor> own, Communicator::OwnPart);
  /// See Communicator::all_gather_columns.
  void gather_columns(const tensor::Tensor& whole, const tensor::Tensor& own, Communicator::OwnPart);
  /// See Communicator::reduce_scatter. Wholes must lie in this memory, and the group has at most kMostRanks ranks. Sums
  /// are in fp32 in rank order, as on hosts.
  void reduce_scatter(std::span<const Communicator::ReduceScatterItem> items);
  /// What a watchdog's thread reads of the next gather or reduce-scatter, to find out which peers are late.
  CallWords next_call() const { return block_.next_call(); }

 private:
  PeerBlock block_;
  ExchangeKernels kernels_;
};

/// Memory of each rank into which kernels of all ranks write, between two meetings of the ranks.
class PushedMemory final : public PushMemory {
 public:
  /// Collective; see PeerBlock.
  PushedMemory(const Communicator& group, std::size_t bytes, cudaStream_t stream)
      : block_(group, bytes, stream), kernels_{stream, 1} {}
  /// Constructs the object in memory that exists; see PeerBlock.
  PushedMemory(std::shared_ptr<const PeerAddresses> memory, std::size_t bytes, cudaStream_t stream)
      : block_(std::move(memory), bytes, stream), kernels_{stream, 1} {}

  std::byte* data() const override { return block_.data(); }
  std::size_t bytes() const override { return block_.bytes(); }
  std::byte* of(int rank) const override { return block_.of(rank); }
  void* stream() const override { return kernels_.stream; }
  /// What the stream is given next may write to all ranks' memory. With PeersRead::waited_for, the stream first waits
  /// until all ranks' streams have come to this call.
  void begin(Communicator::PeersRead peers_read);
  /// What the stream is given next sees all that the ranks' streams have written since begin().
  void end();
  /// What a watchdog's thread reads of the next begin() and its end(), to find out which peers are late.
  CallWords next_call() const { return block_.next_call(); }

 private:
  PeerBlock block_;
  ExchangeKernels kernels_;
  Handshake handshake_;  ///< between begin() and end()
  ExchangeKernels::Meeting ends_by_ = ExchangeKernels::Meeting::done;
};

/// Memory with a slot for each peer that sends to this rank in one call. Copy engines of every rank push its parts into
/// the slots of their receivers, who copy them to their tensors: a sender does not know where they belong.
class SlotMemory final : public DeviceMemory {
 public:
  /// Collective; see PeerBlock.
  SlotMemory(const Communicator& group, std::size_t bytes, cudaStream_t stream) : block_(group, bytes, stream) {}
  /// Constructs the object in memory that exists; see PeerBlock.
  SlotMemory(std::shared_ptr<const PeerAddresses> memory, std::size_t bytes, cudaStream_t stream)
      : block_(std::move(memory), bytes, stream) {}

  std::byte* data() const override { return block_.data(); }
  std::size_t bytes() const override { return block_.bytes(); }
  /// Error(failed) if a slot is too small for what this rank sends or receives. Slots are as large as the number of
  /// peers to which a rank sends in this call allows.
  void require_room(std::span<const PeerPart> parts) const;
  /// See DeviceGroup::exchange. There must be room for the parts.
  void exchange(std::span<const PeerPart> parts);
  /// What a watchdog's thread reads of the next exchange, to find out which peers are late.
  CallWords next_call() const { return block_.next_call(); }

 private:
  template <class Use>
  void for_each_part(std::span<const PeerPart> parts, const Use& use) const;

  PeerBlock block_;
};

}  // namespace shard8::comm::peer
