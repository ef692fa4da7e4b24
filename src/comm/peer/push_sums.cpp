// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/peer/push_sums.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "comm/describe.hpp"
#include "tensor/dtype.hpp"

namespace shard8::comm::peer {
namespace {

using Item = Communicator::ReduceScatterItem;

/// How many of `bytes` bytes are for the parts of one other rank.
std::size_t of_one_rank(std::size_t bytes, int ranks) {
  return bytes / static_cast<std::size_t>(ranks - 1) / tensor::kAlignment * tensor::kAlignment;
}

}  // namespace

PushSums::PushSums(std::shared_ptr<const PeerAddresses> memory, std::size_t bytes, cudaStream_t stream, SumOrder order)
    : block_(std::move(memory), bytes, stream),
      order_(order),
      slot_bytes_(of_one_rank(bytes / 2, block_.size())),
      part_bytes_(of_one_rank(bytes, block_.size())) {}

PushSums::PushSums(const Communicator& group, std::size_t bytes, cudaStream_t stream)
    : block_(group, bytes, stream),
      order_(group.order()),
      slot_bytes_(of_one_rank(bytes / 2, group.size())),
      part_bytes_(of_one_rank(bytes, group.size())) {
  SHARD8_REQUIRE(group.size() <= kMostRanks && slot_bytes_ > 0,
                 "sums in group '{}' of {} ranks with {} bytes; needed are at most {} ranks and {} bytes of each other",
                 group.name(), group.size(), bytes, kMostRanks, 2 * tensor::kAlignment);
}

/// Where rank `of` pushes to at rank `at`: all others' slots in rank order.
std::size_t PushSums::slot_of(int half, int at, int of) const {
  const int others = block_.size() - 1;
  return static_cast<std::size_t>(half * others + (of < at ? of : of - 1)) * slot_bytes_;
}

/// Where rank `of` pushes its part of an item to at rank `at`. Both halves are free between calls.
std::size_t PushSums::place_of(int at, int of) const {
  return static_cast<std::size_t>(of < at ? of : of - 1) * part_bytes_;
}

void PushSums::require_closed() const {
  SHARD8_REQUIRE(!open_, "a reduce-scatter of {} in parts is not finished, and its memory serves one at a time",
                 to_string(item_.whole.shape));
}

void PushSums::begin(const Item& item) {
  require_closed();
  item_ = item;
  open_ = true;
  ready_ = false;
  given_.clear();
  count_.assign(static_cast<std::size_t>(block_.size()), 0);
  block_.tell_ready();
}

void PushSums::give(int to, std::int64_t first, std::int64_t rows) {
  if (!std::exchange(ready_, true)) block_.await_ready();
  if (to == block_.rank()) return;
  const std::size_t row = item_.out.empty() ? 0 : item_.out.bytes() / static_cast<std::size_t>(item_.out.rows());
  const Bytes piece{static_cast<std::size_t>(first) * row, static_cast<std::size_t>(rows) * row};
  const int number = count_[static_cast<std::size_t>(to)]++;
  if (static_cast<std::size_t>(number) == given_.size()) given_.push_back(piece);
  const Bytes& same = given_[static_cast<std::size_t>(number)];
  SHARD8_REQUIRE(same.first == piece.first && same.count == piece.count,
                 "a reduce-scatter of {} in parts is given in other pieces for rank {} than for the first rank",
                 to_string(item_.whole.shape), to);
  if (piece.count > 0)
    block_.add(to, place_of(to, block_.rank()) + piece.first, rows_of(item_, to) + piece.first, piece.count);
  block_.push_to(to, number);
}

void PushSums::await_piece(int piece) {
  for (int k = 1; k < block_.size(); ++k) block_.await_part(block_.peer(k), piece);
}

void PushSums::finish() {
  const int rank = block_.rank();
  for (std::size_t i = 0; i < given_.size(); ++i) {
    await_piece(static_cast<int>(i));
    Parts parts;
    for (int r = 0; r < block_.size(); ++r)
      parts.add((r == rank ? rows_of(item_, r) : data() + place_of(rank, r)) + given_[i].first);
    if (given_[i].count > 0) sum_item(block_.stream(), item_, given_[i].first, given_[i].count, parts);
  }
  open_ = false;
}

tensor::PartialSums PushSums::push_partial_sums(const Item& item) {
  require_closed();
  const int rank = block_.rank();
  for (int k = 1; k < block_.size() && !item.out.empty(); ++k) {
    const int to = block_.peer(k);
    block_.add(to, place_of(to, rank), rows_of(item, to), item.out.bytes());
  }
  block_.push();
  return partial_sums_of(item);
}

tensor::PartialSums PushSums::finish_partial_sums() {
  for (std::size_t i = 0; i < given_.size(); ++i) await_piece(static_cast<int>(i));
  open_ = false;
  return partial_sums_of(item_);
}

tensor::PartialSums PushSums::partial_sums_of(const Item& item) const {
  const int rank = block_.rank();
  tensor::PartialSums partial_sums;
  for (int r = 0; r < block_.size(); ++r) {
    tensor::Tensor part = item.out;
    part.data = r == rank ? rows_of(item, r) : data() + place_of(rank, r);
    partial_sums.add(part);
  }
  if (!item.addend.empty()) partial_sums.add(item.addend);
  return partial_sums;
}

void PushSums::reduce_scatter(std::span<const Item> items) {
  require_closed();
  for (const Item& item : items) take(item);
  if (!pieces_[half_].empty()) end_turn();
  sum(1 - half_);  // of the last turn
}

/// Adds an item to the pieces of this turn, and ends all turns that it fills.
void PushSums::take(const Item& item) {
  const std::size_t all = item.out.bytes();
  for (std::size_t first = 0; first < all;) {
    const std::size_t bytes = std::min(all - first, slot_bytes_ - used_);
    pieces_[half_].push_back({&item, first, bytes, used_});
    first += bytes;
    used_ += tensor::aligned(bytes);
    if (used_ == slot_bytes_) end_turn();
  }
}

/// Has this turn's parts pushed, then those of the one before summed, whose half is the next turn's.
void PushSums::end_turn() {
  for (int k = 1; k < block_.size(); ++k) {
    const int to = block_.peer(k);
    for (const Piece& piece : pieces_[half_])
      block_.add(to, slot_of(half_, to, block_.rank()) + piece.offset, rows_of(*piece.item, to) + piece.first,
                 piece.bytes);
  }
  block_.push();
  half_ = 1 - half_;
  used_ = 0;
  sum(half_);
}

void PushSums::sum(int half) {
  const int rank = block_.rank();
  for (const Piece& piece : pieces_[half]) {
    Parts parts;
    parts.order = order_;
    for (int r = 0; r < block_.size(); ++r)
      parts.add(r == rank ? rows_of(*piece.item, r) + piece.first : data() + slot_of(half, rank, r) + piece.offset);
    sum_item(block_.stream(), *piece.item, piece.first, piece.bytes, parts);
  }
  pieces_[half].clear();
}

}  // namespace shard8::comm::peer
