// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi/all_reduce.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/error.hpp"
#include "comm/communicator.hpp"
#include "comm/describe.hpp"
#include "comm/device.hpp"
#include "comm/mpi/group.hpp"
#include "comm/mpi/pending.hpp"

namespace shard8::comm {
namespace {

using Reduce = Communicator::Reduce;

// Up to this size every rank gets everything in one exchange: latency counts, not bytes.
constexpr std::size_t kSmallBytes = std::size_t{64} << 10;
// Cuts between ranks are at multiples of so many elements.
constexpr std::int64_t kCut = 16;

// Bytes of a round of relay_cut over all ranks: bounds its scratch memory to twice as much. Chosen: some rounds for
// the gradients of a layer of a large model, so that waiting between them is little of the whole.
constexpr std::size_t kRoundBytes = std::size_t{128} << 20;

// Packs all items, exchanges the packs, and every rank reduces everything.
class SmallAllReduce final : public PendingCollective {
 public:
  SmallAllReduce(std::shared_ptr<Group> group, std::span<const tensor::Tensor> items, Reduce reduce)
      : PendingCollective(std::move(group), profile::Collective::all_reduce, items),
        items_(items.begin(), items.end(), &group_->memory),
        sources_(static_cast<std::size_t>(group_->size), &group_->memory),
        reduce_(reduce) {
    for (const tensor::Tensor& t : items_) pack_bytes_ += aligned_item(t.bytes());
    scratch_ = group_->scratch.take(pack_bytes_ * static_cast<std::size_t>(group_->size));
    for (int k = 1; k < group_->size; ++k) receive(pack_of(source(k)), pack_bytes_, source(k));
    std::byte* place = pack_of(group_->rank);
    for (const tensor::Tensor& t : items_) {
      if (!t.empty()) std::memcpy(place, t.data, t.bytes());
      // The gap is set to zeros, so that no byte is sent that nobody wrote.
      if (const auto gap = aligned_item(t.bytes()) - t.bytes(); gap > 0) std::memset(place + t.bytes(), 0, gap);
      place += aligned_item(t.bytes());
    }
    for (int k = 1; k < group_->size; ++k) send(pack_of(group_->rank), pack_bytes_, destination(k));
  }

 private:
  std::byte* pack_of(int rank) const { return scratch_.data() + static_cast<std::size_t>(rank) * pack_bytes_; }

  bool next_stage() override {
    std::size_t first = 0;
    for (const tensor::Tensor& t : items_) {
      for (int rank = 0; rank < group_->size; ++rank) sources_[static_cast<std::size_t>(rank)] = pack_of(rank) + first;
      combine(t.data, sources_, t.count(), t.dtype, reduce_, group_->order);
      first += aligned_item(t.bytes());
    }
    return true;
  }

  std::pmr::vector<tensor::Tensor> items_;
  std::pmr::vector<const std::byte*> sources_;  // of one item: by rank
  Reduce reduce_;
  std::size_t pack_bytes_ = 0;
  ScratchPool::Block scratch_;  // until waited for, so that what is held does not depend on timing
};

// Each rank reduces its share of every item and sends the result to all others.
class LargeAllReduce final : public PendingCollective {
 public:
  LargeAllReduce(std::shared_ptr<Group> group, std::span<const tensor::Tensor> items, Reduce reduce)
      : PendingCollective(std::move(group), profile::Collective::all_reduce, items),
        items_(items.begin(), items.end(), &group_->memory),
        sources_(static_cast<std::size_t>(group_->size), &group_->memory),
        reduce_(reduce) {
    std::size_t bytes = 0;
    for (const tensor::Tensor& t : items_) bytes += slot_bytes(t) * static_cast<std::size_t>(group_->size - 1);
    scratch_ = group_->scratch.take(bytes);
    std::byte* place = scratch_.data();
    for (const tensor::Tensor& t : items_) {
      for (int k = 1; k < group_->size; ++k) {
        const auto slot = static_cast<std::size_t>(source(k) < group_->rank ? source(k) : source(k) - 1);
        receive(place + slot * slot_bytes(t), share(t, group_->rank).bytes, source(k));
      }
      place += slot_bytes(t) * static_cast<std::size_t>(group_->size - 1);
    }
    for (const tensor::Tensor& t : items_) {
      for (int k = 1; k < group_->size; ++k) {
        const Share s = share(t, destination(k));
        send(t.data + s.first, s.bytes, destination(k));
      }
    }
  }

  bool staged() const override { return !reduced_; }

 private:
  struct Share {
    std::size_t first, bytes;
    std::int64_t count;
  };
  static std::int64_t cut(const tensor::Tensor& t, int ranks) {
    return (t.count() + ranks * kCut - 1) / (ranks * kCut) * kCut;
  }
  Share share(const tensor::Tensor& t, int rank) const {
    const std::int64_t first = std::min(cut(t, group_->size) * rank, t.count());
    const std::int64_t count = std::min(cut(t, group_->size), t.count() - first);
    return {bytes_of(t.dtype, first), bytes_of(t.dtype, count), count};
  }
  // The cut is a multiple of 16 elements, so slots stay aligned.
  std::size_t slot_bytes(const tensor::Tensor& t) const { return bytes_of(t.dtype, cut(t, group_->size)); }

  bool next_stage() override {
    if (reduced_) return true;
    const std::byte* place = scratch_.data();
    for (const tensor::Tensor& t : items_) {
      const Share own = share(t, group_->rank);
      for (int rank = 0; rank < group_->size; ++rank) {
        const bool mine = rank == group_->rank;
        sources_[static_cast<std::size_t>(rank)] = mine ? t.data + own.first : place;
        if (!mine) place += slot_bytes(t);
      }
      combine(t.data + own.first, sources_, own.count, t.dtype, reduce_, group_->order);
    }
    reduced_ = true;
    for (const tensor::Tensor& t : items_) {
      for (int k = 1; k < group_->size; ++k) {
        const Share s = share(t, source(k));
        receive(t.data + s.first, s.bytes, source(k));
      }
    }
    for (const tensor::Tensor& t : items_) {
      const Share own = share(t, group_->rank);
      for (int k = 1; k < group_->size; ++k) send(t.data + own.first, own.bytes, destination(k));
    }
    return false;
  }

  std::pmr::vector<tensor::Tensor> items_;
  std::pmr::vector<const std::byte*> sources_;  // of one item: by rank
  Reduce reduce_;
  ScratchPool::Block scratch_;  // until waited for, so that what is held does not depend on timing
  bool reduced_ = false;
};

}  // namespace

void combine(std::byte* out, std::span<const std::byte* const> sources, std::int64_t count, tensor::DType dtype,
             Reduce reduce, SumOrder order) {
  if (reduce == Reduce::sum) {
    sum_in_order(out, sources, count, dtype, order);
  } else {
    max_in_order(out, sources, count, dtype);
  }
}

AllReducePlan plan_all_reduce(std::size_t bytes, std::size_t items, int ranks, const Limits& limits) {
  using Way = AllReducePlan::Way;
  const auto n = static_cast<std::size_t>(ranks);
  const std::size_t stream = bytes + 3 * items;
  if (ranks <= limits.direct_ranks) {
    if (bytes <= kSmallBytes) return {Way::all, stream, 1, n * stream, n - 1};
    const std::size_t rounding = n * static_cast<std::size_t>(kCut) * size_of(tensor::DType::fp32) * items;
    return {Way::cut, (bytes + rounding) / n, 1, (bytes + rounding) / n * (n - 1), 2 * (n - 1) * items};
  }
  const std::size_t relays = relay_messages(ranks, relay_radix(limits));
  // Relaying all parts may take as much memory as the direct ways take at most for small tensors.
  if (n * bytes <= kSmallBytes * static_cast<std::size_t>(relay_radix(limits)))
    return {Way::relay_all, stream, 1, n * (sizeof(const std::byte*) + stream), relays};
  const std::size_t most = std::max<std::size_t>(std::min(kRoundBytes / n, limits.message_bytes) / 4 * 4, 4);
  const std::size_t block = std::min(aligned_item((stream + n - 1) / n), most);
  const std::size_t rounds = (stream + n * block - 1) / (n * block);
  return {Way::relay_cut, block, rounds, n * (sizeof(const std::byte*) + 2 * block), 2 * relays * rounds};
}

Request Communicator::all_reduce(std::span<const tensor::Tensor> items, Reduce reduce) const {
  for (const tensor::Tensor& t : items) {
    if (reduce == Reduce::sum) {
      require_summable(t, *group_, "all_reduce");
    } else {
      require_comparable(t, *group_, "all_reduce");
    }
    require_data(t, *group_, "all_reduce");
  }
  if (size_ == 1) return {};
  if (DeviceGroup* device = group_->on_device("all_reduce")) return Request(device->all_reduce(items, reduce));
  const AllReducePlan plan = plan_all_reduce(total_bytes(items), items.size(), size_, group_->engine->limits);
  switch (plan.way) {
    case AllReducePlan::Way::all:
      return Request(PendingCollective::make<SmallAllReduce>(group_, items, reduce));
    case AllReducePlan::Way::cut:
      return Request(PendingCollective::make<LargeAllReduce>(group_, items, reduce));
    case AllReducePlan::Way::relay_all:
    case AllReducePlan::Way::relay_cut:
      break;
  }
  return Request(relayed_all_reduce(group_, items, reduce, plan));
}

std::size_t Communicator::all_reduce_scratch_bytes(std::size_t bytes, int group_size, int items) {
  if (group_size == 1) return 0;
  return plan_all_reduce(bytes, static_cast<std::size_t>(items), group_size, Limits{}).scratch_bytes;
}

namespace {

using Item = Communicator::ReduceScatterItem;

std::pmr::vector<tensor::Tensor> wholes(std::span<const Item> items, std::pmr::memory_resource& memory) {
  std::pmr::vector<tensor::Tensor> whole(&memory);
  for (const Item& item : items) whole.push_back(item.whole);
  return whole;
}

// Items start at multiples of 4 bytes, so that fp32 after bf16 is aligned.
constexpr std::size_t aligned(std::size_t bytes) { return (bytes + 3) / 4 * 4; }

// Each rank receives its rows of every other rank's whole and adds them up in the group's order.
class PendingReduceScatter final : public PendingCollective {
 public:
  PendingReduceScatter(std::shared_ptr<Group> group, std::span<const Item> items, std::span<const tensor::Tensor> whole,
                       std::string_view label)
      : PendingCollective(std::move(group), profile::Collective::reduce_scatter, whole, label),
        items_(items.begin(), items.end(), &group_->memory),
        received_(&group_->memory),
        sources_(&group_->memory) {
    const int n = group_->size;
    std::size_t bytes = 0;
    for (const Item& item : items_) bytes += aligned(static_cast<std::size_t>(slots(item)) * item.out.bytes());
    scratch_ = group_->scratch.take(bytes);

    std::byte* place = scratch_.data();
    for (const Item& item : items_) {
      received_.push_back(place);
      if (direct(item)) {
        for (int k = 1; k < n; ++k) {
          const auto slot = static_cast<std::size_t>(source(k) < group_->rank ? source(k) : source(k) - 1);
          receive(place + slot * item.out.bytes(), item.out.bytes(), source(k));
        }
      }
      place += aligned(static_cast<std::size_t>(slots(item)) * item.out.bytes());
    }
    for (std::size_t i = 0; i < items_.size(); ++i) {
      const Item& item = items_[i];
      if (direct(item)) {
        for (int k = 1; k < n; ++k) send(rows_of(item, destination(k)), item.out.bytes(), destination(k));
      } else if (!item.whole.empty()) {
        const auto count = static_cast<int>(item.out.bytes());
        check_mpi(MPI_Ialltoall(item.whole.data, count, MPI_BYTE, received_[i], count, MPI_BYTE, group_->comm,
                                &requests_.emplace_back(MPI_REQUEST_NULL)),
                  "MPI_Ialltoall", "reduce_scatter", group_.get());
      }
    }
  }

 private:
  bool direct(const Item& item) const {
    const Limits& limits = group_->engine->limits;
    return group_->size <= limits.direct_ranks || item.out.bytes() > limits.message_bytes;
  }
  // Directly, this rank's own rows need no slot.
  int slots(const Item& item) const { return direct(item) ? group_->size - 1 : group_->size; }

  bool next_stage() override {
    for (std::size_t i = 0; i < items_.size(); ++i) {
      const Item& item = items_[i];
      const std::byte* slot = received_[i];
      sources_.clear();
      for (int rank = 0; rank < group_->size; ++rank) {
        const bool own = rank == group_->rank;
        sources_.push_back(own ? rows_of(item, rank) : slot);
        if (!own || !direct(item)) slot += item.out.bytes();
      }
      sum_in_order(item.out.data, sources_, item.out.count(), item.out.dtype, group_->order, item.addend.data);
    }
    return true;
  }

  std::pmr::vector<Item> items_;
  std::pmr::vector<std::byte*> received_;       // of each item: the slots, in rank order
  std::pmr::vector<const std::byte*> sources_;  // of one item: by rank
  ScratchPool::Block scratch_;                  // until waited for, so that what is held does not depend on timing
};

}  // namespace

Request Communicator::reduce_scatter(std::span<const ReduceScatterItem> items, std::string_view label) const {
  for (const Item& item : items) {
    require_item(item, *group_);
    require_data(item.whole, *group_, "reduce_scatter");
  }
  if (size_ == 1) {
    for (const Item& item : items) {
      SHARD8_REQUIRE(item.addend.empty(), "reduce_scatter in group '{}' of one rank with an addend", name());
      group_->copy(item.out.data, item.whole);
    }
    return {};
  }
  if (DeviceGroup* device = group_->on_device("reduce_scatter")) return Request(device->reduce_scatter(items, label));
  return Request(PendingCollective::make<PendingReduceScatter>(group_, items, wholes(items, group_->memory), label));
}

Request Communicator::reduce_scatter_partial_sums(const ReduceScatterItem& item, tensor::PartialSums& partial_sums,
                                                  std::string_view label) const {
  SHARD8_REQUIRE(item.addend.empty(), "reduce_scatter for {} in group '{}' leaves no addend to the reader of its sum",
                 label, name());
  DeviceGroup* const device = size_ == 1 ? nullptr : group_->on_device("reduce_scatter");
  if (device == nullptr) {
    partial_sums = item.out;
    return reduce_scatter({&item, 1}, label);
  }
  require_item(item, *group_);
  require_data(item.whole, *group_, "reduce_scatter");
  return Request(device->reduce_scatter_partial_sums(item, partial_sums, label));
}

void Communicator::reduce_scatter(const tensor::Tensor& out, const tensor::Tensor& in,
                                  const tensor::Tensor& addend) const {
  const std::array<Item, 1> items{{{out, in, addend}}};
  reduce_scatter(items).wait();
}

std::size_t Communicator::reduce_scatter_scratch_bytes(std::size_t whole_bytes, int group_size, int items) {
  if (group_size == 1) return 0;
  const auto n = static_cast<std::size_t>(group_size);
  const std::size_t received = group_size > Limits{}.direct_ranks ? whole_bytes : whole_bytes / n * (n - 1);
  return received + static_cast<std::size_t>(items) * 3;
}

}  // namespace shard8::comm
