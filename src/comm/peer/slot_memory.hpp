// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <utility>

#include "comm/device.hpp"
#include "comm/peer/peer_block.hpp"
#include "comm/rows.hpp"

namespace shard8::comm::peer {

/// Memory with a slot for each peer that sends to this rank in one call. Copy engines of every rank push its parts into
/// the slots of their receivers, who copy them to their tensors: a sender does not know where they belong.
class SlotMemory final : public DeviceMemory {
 public:
  /// Collective; see PeerBlock.
  SlotMemory(const Communicator& group, std::size_t bytes, cudaStream_t stream) : block_(group, bytes, stream) {}
  /// In memory that exists; see PeerBlock.
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
