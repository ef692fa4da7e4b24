// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <utility>

#include "comm/mpi/all_reduce.hpp"
#include "comm/mpi/pending.hpp"

namespace shard8::comm {
namespace {

using Reduce = Communicator::Reduce;

// The algorithms of Bruck et al. 1997 (IEEE Transactions on Parallel and Distributed Systems 8, 11: "Efficient
// algorithms for all-to-all communications in multiport message-passing systems") with radix r. The distance between
// two ranks is a number below the group's size n, written in digits of base r. A stage for each digit, of weight
// w = r^i, moves each block by its digit times w: blocks of one digit value go to one rank, in one message.

// The slots of distances 0 … n−1, ordered by their digit of weight w, then by distance.
class ByDigit {
 public:
  ByDigit(std::int64_t slots, std::int64_t radix, std::int64_t weight)
      : slots_(slots), radix_(radix), weight_(weight), period_(radix * weight) {}

  /// Slots whose digit is `value`.
  std::int64_t size(std::int64_t value) const {
    return slots_ / period_ * weight_ + std::clamp<std::int64_t>(slots_ % period_ - value * weight_, 0, weight_);
  }
  /// Slots whose digit is less than `value`.
  std::int64_t first(std::int64_t value) const {
    return slots_ / period_ * weight_ * value + std::min(slots_ % period_, value * weight_);
  }
  /// Where the slot of a distance lies.
  std::int64_t place(std::int64_t distance) const {
    return first(distance / weight_ % radix_) + distance / period_ * weight_ + distance % weight_;
  }

 private:
  std::int64_t slots_, radix_, weight_, period_;
};

// The items lie one behind the other in a stream of bytes, which is reduced in rounds. In a round (relay_cut) the
// block of a rank is its share: ranks bring the others' shares to them, each reduces its own, and the results are
// brought to all. With relay_all the block of a rank is everything that it has.
class RelayedAllReduce final : public PendingCollective {
 public:
  RelayedAllReduce(std::shared_ptr<Group> group, std::span<const tensor::Tensor> items, Reduce reduce,
                   const AllReducePlan& plan)
      : PendingCollective(std::move(group), profile::Collective::all_reduce, items),
        items_(items.begin(), items.end(), &group_->memory),
        reduce_(reduce),
        radix_(relay_radix(group_->engine->limits)),
        cut_(plan.way == AllReducePlan::Way::relay_cut) {
    for (const tensor::Tensor& t : items_) stream_bytes_ += aligned_item(t.bytes());
    block_ = cut_ ? std::min(plan.block_bytes, block_for(stream_bytes_)) : stream_bytes_;
    const std::size_t sources = ranks() * sizeof(const std::byte*), blocks = ranks() * block_;
    scratch_ = group_->scratch.take(sources + (cut_ ? 2 : 1) * blocks);
    sources_ = {reinterpret_cast<const std::byte**>(scratch_.data()), ranks()};
    packed_ = scratch_.data() + sources;
    received_ = packed_ + blocks;
    if (cut_) {
      begin_round();
    } else {
      pack(packed_, 0);
      begin_gather();
    }
  }

  bool staged() const override { return !last_stage_; }

 private:
  enum class Stage : std::uint8_t { scatter, gather };

  std::size_t ranks() const { return static_cast<std::size_t>(group_->size); }
  int rank_at(std::int64_t distance) const {
    return static_cast<int>(((group_->rank + distance) % group_->size + group_->size) % group_->size);
  }
  /// How far up another rank is.
  int distance_to(int rank) const { return (rank - group_->rank + group_->size) % group_->size; }
  std::size_t block_for(std::size_t bytes) const { return aligned_item((bytes + ranks() - 1) / ranks()); }
  std::size_t bytes_of(std::int64_t blocks) const { return static_cast<std::size_t>(blocks) * block_; }

  /// Calls use(data, bytes, dtype, offset) for each part of an item in the block that begins at `first` in the stream,
  /// and for the gap behind it with data null; offsets count from the block's beginning.
  template <class Use>
  void for_each_part(std::size_t first, const Use& use) const {
    std::size_t item_first = 0;
    const std::size_t end = first + block_;
    const auto within = [&](std::size_t from, std::size_t to, std::byte* data, tensor::DType dtype) {
      const std::size_t b = std::max(from, first), e = std::min(to, end);
      if (b < e) use(data == nullptr ? nullptr : data + (b - from), e - b, dtype, b - first);
    };
    for (const tensor::Tensor& t : items_) {
      if (item_first >= end) return;
      const std::size_t item_end = item_first + t.bytes();
      within(item_first, item_end, t.data, t.dtype);
      item_first += aligned_item(t.bytes());
      within(item_end, item_first, nullptr, t.dtype);
    }
    within(item_first, std::max(item_first, end), nullptr, tensor::DType::u8);
  }

  void pack(std::byte* block, std::size_t first) const {
    for_each_part(first, [&](const std::byte* data, std::size_t bytes, tensor::DType, std::size_t offset) {
      if (data != nullptr) {
        std::memcpy(block + offset, data, bytes);
      } else {
        std::memset(block + offset, 0, bytes);  // only so that no byte is sent that nobody wrote
      }
    });
  }

  void unpack(const std::byte* block, std::size_t first) const {
    for_each_part(first, [&](std::byte* data, std::size_t bytes, tensor::DType, std::size_t offset) {
      if (data != nullptr) std::memcpy(data, block + offset, bytes);
    });
  }

  /// Reduces the block at `first` in the stream. source(rank) is that rank's block; out(data, offset) says where a
  /// part's result goes.
  template <class Source, class Out>
  void reduce_block(std::size_t first, const Source& source, const Out& out) {
    for_each_part(first, [&](std::byte* data, std::size_t bytes, tensor::DType dtype, std::size_t offset) {
      if (data == nullptr) return;
      for (int rank = 0; rank < group_->size; ++rank) sources_[static_cast<std::size_t>(rank)] = source(rank) + offset;
      combine(out(data, offset), sources_, static_cast<std::int64_t>(bytes / size_of(dtype)), dtype, reduce_,
              group_->order);
    });
  }

  /// Where in the stream the share of a rank begins, in this round.
  std::size_t share(int rank) const { return round_first_ + static_cast<std::size_t>(rank) * block_; }

  void begin_round() {
    weight_ = 1;
    const ByDigit slots(group_->size, radix_, weight_);
    for (int rank = 0; rank < group_->size; ++rank) {
      pack(packed_ + bytes_of(slots.place(distance_to(rank))), share(rank));
    }
    begin_scatter_stage();
  }

  /// Moves the blocks in packed_, ordered by their digit, into received_ of the ranks that many weights further up.
  void begin_scatter_stage() {
    stage_ = Stage::scatter;
    const ByDigit slots(group_->size, radix_, weight_);
    const auto each = [&](const auto& use) {
      for (int v = 1; v < radix_ && slots.size(v) > 0; ++v)
        use(bytes_of(slots.first(v)), bytes_of(slots.size(v)), v * weight_);
    };
    each([&](std::size_t at, std::size_t bytes, std::int64_t up) { receive(received_ + at, bytes, rank_at(-up)); });
    each([&](std::size_t at, std::size_t bytes, std::int64_t up) { send(packed_ + at, bytes, rank_at(up)); });
    std::memcpy(received_, packed_, bytes_of(slots.size(0)));
  }

  /// The block in packed_ is brought to all ranks: afterwards packed_ has that of the rank j further up in slot j.
  void begin_gather() {
    weight_ = 1;
    begin_gather_stage();
  }

  void begin_gather_stage() {
    stage_ = Stage::gather;
    const std::int64_t n = group_->size, w = weight_;
    for (std::int64_t up = w; up < std::min(radix_ * w, n); up += w)
      receive(packed_ + bytes_of(up), bytes_of(std::min(w, n - up)), rank_at(up));
    for (std::int64_t up = w; up < std::min(radix_ * w, n); up += w)
      send(packed_, bytes_of(std::min(w, n - up)), rank_at(-up));
    last_stage_ = radix_ * w >= n && (!cut_ || round_first_ + ranks() * block_ >= stream_bytes_);
  }

  bool next_stage() override {
    const ByDigit slots(group_->size, radix_, weight_);
    weight_ *= radix_;
    const bool more_digits = weight_ < group_->size;
    if (stage_ == Stage::gather) {
      if (more_digits) {
        begin_gather_stage();
        return false;
      }
      return end_round();
    }
    if (more_digits) {
      const ByDigit next(group_->size, radix_, weight_);
      for (int d = 0; d < group_->size; ++d)
        std::memcpy(packed_ + bytes_of(next.place(d)), received_ + bytes_of(slots.place(d)), block_);
      begin_scatter_stage();
      return false;
    }
    // The block in slot d came from the rank d further down.
    reduce_block(
        share(group_->rank),
        [&](int rank) { return received_ + bytes_of(slots.place((group_->size - distance_to(rank)) % group_->size)); },
        [&](std::byte*, std::size_t offset) { return packed_ + offset; });
    begin_gather();
    return false;
  }

  bool end_round() {
    const auto block_of = [this](int rank) { return packed_ + bytes_of(distance_to(rank)); };
    if (!cut_) {
      reduce_block(0, block_of, [](std::byte* data, std::size_t) { return data; });
      return true;
    }
    for (int rank = 0; rank < group_->size; ++rank) unpack(block_of(rank), share(rank));
    round_first_ += ranks() * block_;
    if (round_first_ >= stream_bytes_) return true;
    begin_round();
    return false;
  }

  std::pmr::vector<tensor::Tensor> items_;
  Reduce reduce_;
  int radix_;
  bool cut_;
  std::size_t stream_bytes_ = 0, block_ = 0;
  ScratchPool::Block scratch_;           // until waited for, so that what is held does not depend on timing
  std::span<const std::byte*> sources_;  // of one part: by rank
  std::byte *packed_ = nullptr, *received_ = nullptr;  // a block for each rank
  std::size_t round_first_ = 0;                        // of the stream
  Stage stage_ = Stage::gather;
  std::int64_t weight_ = 1;  // of the digit of this stage
  bool last_stage_ = false;
};

}  // namespace

int relay_radix(const Limits& limits) { return std::max(limits.direct_ranks, 2); }

std::size_t relay_messages(int ranks, int radix) {
  std::size_t messages = 0;
  for (std::int64_t weight = 1; weight < ranks; weight *= radix)
    messages += static_cast<std::size_t>(std::min<std::int64_t>(radix - 1, (ranks - 1) / weight));
  return messages;
}

Request::Pending relayed_all_reduce(const std::shared_ptr<Group>& group, std::span<const tensor::Tensor> items,
                                    Communicator::Reduce reduce, const AllReducePlan& plan) {
  return PendingCollective::make<RelayedAllReduce>(group, items, reduce, plan);
}

}  // namespace shard8::comm
