// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "comm/communicator.hpp"
#include "comm/device.hpp"
#include "comm/peer/peer_block.hpp"
#include "comm/peer/sum_parts.hpp"

namespace shard8::comm::peer {

/// Memory for reduce-scatters in which every rank pushes parts to the rank that sums them. Sums are in fp32 in the
/// group's order, as on hosts; those of items given in parts are in rank order. A call takes turns: in each turn half
/// of the memory receives the parts of all other ranks. While the sums of one turn wait for multiprocessors, the parts
/// of the next turn arrive in the other half.
class PushSums final : public DeviceMemory {
 public:
  /// Collective; see PeerBlock.
  PushSums(const Communicator& group, std::size_t bytes, cudaStream_t stream);
  /// Constructs the object in memory that exists; see PeerBlock.
  PushSums(std::shared_ptr<const PeerAddresses> memory, std::size_t bytes, cudaStream_t stream,
           SumOrder order = SumOrder::ranks);

  std::byte* data() const override { return block_.data(); }
  std::size_t bytes() const override { return block_.bytes(); }
  /// See Communicator::reduce_scatter.
  void reduce_scatter(std::span<const Communicator::ReduceScatterItem> items);

  /// Pushes the parts of an item that fits, in one turn that uses all of the memory, and sums nothing. Returns every
  /// rank's partial sum of this rank's rows, in rank order: this rank's in the item's whole, the others' in this
  /// memory. What the stream is given afterwards sees them. The partial sums are there until the stream is given the
  /// next call.
  tensor::PartialSums push_partial_sums(const Communicator::ReduceScatterItem& item);

  /// Whether an item can go through this memory in one turn.
  bool fits(const Communicator::ReduceScatterItem& item) const { return item.out.bytes() <= part_bytes_; }
  /// Begins the reduce-scatter of an item that fits, in parts. Until finish() or finish_partial_sums() the memory
  /// serves nothing else.
  void begin(const Communicator::ReduceScatterItem& item);
  /// Pushes rows `first` … `first` + `rows` − 1 of those that rank `to` sums. Every row of every rank is given once, in
  /// order, and for all ranks but this one in the same pieces on all ranks. Nothing is pushed for this rank.
  void give(int to, std::int64_t first, std::int64_t rows);
  /// Sums piece by piece, each when those of all peers have arrived.
  void finish();
  /// In place of finish(): sums nothing, and returns what push_partial_sums() does, when all pieces have arrived. The
  /// item's addend, if it has one, is the last partial sum.
  tensor::PartialSums finish_partial_sums();

  /// What a watchdog's thread reads of the next reduce_scatter(). After that call, last_number() tells how many turns
  /// it took.
  CallWords next_call() const {
    CallWords call = block_.next_call();
    call.numbers.in_turns = true;
    return call;
  }
  /// What a watchdog reads of the reduce-scatter that begin() began, with the pieces so far. give() adds pieces, which
  /// last_number() tells.
  CallWords call_in_parts() const { return block_.call_in_parts(); }
  std::uint32_t last_number() const { return block_.last_number(); }

 private:
  /// Bytes of an item's shard, and their place in a rank's slot.
  struct Piece {
    const Communicator::ReduceScatterItem* item;
    std::size_t first, bytes, offset;
  };
  struct Bytes {
    std::size_t first, count;
  };
  std::size_t slot_of(int half, int at, int of) const;
  std::size_t place_of(int at, int of) const;
  void require_closed() const;
  void await_piece(int piece);
  tensor::PartialSums partial_sums_of(const Communicator::ReduceScatterItem& item) const;
  void take(const Communicator::ReduceScatterItem& item);
  void end_turn();
  void sum(int half);

  PeerBlock block_;
  SumOrder order_;                        ///< of reduce_scatter()
  std::size_t slot_bytes_;                ///< bytes in a half for the parts of one other rank
  std::size_t part_bytes_;                ///< bytes of the whole memory for the part of one other rank
  std::vector<Piece> pieces_[2];          ///< pieces of the turn of each half
  int half_ = 0;                          ///< the half of this turn
  std::size_t used_ = 0;                  ///< bytes of a slot that this turn uses
  Communicator::ReduceScatterItem item_;  ///< the item that is given in parts
  std::vector<Bytes> given_;              ///< the pieces of the rank that was given first, of a shard of the item
  std::vector<int> count_;                ///< of each rank: its pieces that were given
  bool open_ = false;                     ///< between begin() and the end of its reduce-scatter
  bool ready_ = false;                    ///< the stream has waited for the peers' memory
};

/// Sums `bytes` bytes of an item of a reduce-scatter, from byte `first` of its out on. `parts` are all ranks' parts of
/// these bytes; the item's addend is added last.
inline void sum_item(cudaStream_t stream, const Communicator::ReduceScatterItem& item, std::size_t first,
                     std::size_t bytes, Parts parts) {
  if (!item.addend.empty()) parts.add_addend(item.addend.data + first);
  sum_parts(stream, item.out.data + first, item.out.dtype,
            static_cast<std::int64_t>(bytes / tensor::size_of(item.out.dtype)), parts);
}

}  // namespace shard8::comm::peer
