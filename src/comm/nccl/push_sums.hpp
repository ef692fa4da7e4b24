// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "comm/device.hpp"
#include "comm/nccl/peer_block.hpp"

namespace shard8::comm::nccl {

/// Reduce-scatters whose parts every rank pushes to the rank that sums them, in rank order and with sums in
/// fp32, as on hosts: as much in a turn as half of the memory holds of all other ranks. While sums wait for
/// multiprocessors, the next turn's parts arrive in the other half.
class PushSums final : public DeviceMemory {
 public:
  /// As PeerBlock.
  PushSums(const Communicator& group, std::size_t bytes, cudaStream_t stream);

  std::byte* data() const override { return block_.data(); }
  std::size_t bytes() const override { return block_.bytes(); }
  /// As Communicator::reduce_scatter.
  void reduce_scatter(std::span<const Communicator::ReduceScatterItem> items);

 private:
  /// Elements of an item's shard, and where they lie in a rank's slot.
  struct Piece {
    const Communicator::ReduceScatterItem* item;
    std::size_t first, bytes, offset;
  };
  std::size_t slot_of(int half, int at, int of) const;
  void take(const Communicator::ReduceScatterItem& item);
  void end_turn();
  void sum(int half);

  PeerBlock block_;
  std::size_t slot_bytes_;        ///< of a half, for what one other rank pushes
  std::vector<Piece> pieces_[2];  ///< of each half's turn
  int half_ = 0;                  ///< of this turn
  std::size_t used_ = 0;          ///< of a slot
};

}  // namespace shard8::comm::nccl
