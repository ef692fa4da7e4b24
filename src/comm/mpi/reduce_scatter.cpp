// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <utility>

#include "base/error.hpp"
#include "comm/communicator.hpp"
#include "comm/describe.hpp"
#include "comm/device.hpp"
#include "comm/mpi/group.hpp"
#include "comm/mpi/pending.hpp"
#include "comm/mpi/sums.hpp"

namespace shard8::comm {
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
