// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/nccl/device_parts.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "comm/nccl/nccl_group.hpp"

namespace shard8::comm::nccl {

using tensor::Tensor;

void DeviceGather::begin(const GroupInfo& info, std::span<const Tensor> whole, std::span<const Tensor> own) {
  whole_.assign(whole.begin(), whole.end());
  own_.assign(own.begin(), own.end());
  rank_ = info.rank;
  size_ = info.size;
  parts_ = nullptr;
  in_use_ = true;
}

void DeviceGather::begin_whole(const GroupInfo& info, DeviceCall* call, std::span<const Tensor> whole,
                               std::span<const Tensor> own) {
  begin(info, whole, own);
  call_ = call;
}

void DeviceGather::begin_parts(const GroupInfo& info, Lane& lane, Call& call, peer::PeerMemory& memory,
                               std::span<const Tensor> whole, std::span<const Tensor> own, bool own_too) {
  begin(info, whole, own);
  memory.gather_parts(whole, own);
  for (int k = 1; k < size_; ++k) {
    memory.await_part((rank_ - k + size_) % size_);  // in the order in which peers push
    call.end_part();
  }
  if (own_too) memory.copy_own(whole, own);  // no product waits for it
  parts_ = &call;
  call_ = lane.end(call);
}

void DeviceGather::await(int rank) {
  SHARD8_REQUIRE(rank >= 0 && rank < size_, "await of rank {} in a group of {} ranks", rank, size_);
  if (rank == rank_) return;
  if (parts_ != nullptr) {
    parts_->await_part(static_cast<std::size_t>((rank_ - rank + size_) % size_ - 1));
  } else if (DeviceCall* call = std::exchange(call_, nullptr)) {
    call->wait();
  }
}

Tensor DeviceGather::part(std::size_t i, int rank) const {
  Tensor t = own_.at(i);
  if (rank != rank_ && !t.empty()) t.data = whole_[i].data + static_cast<std::size_t>(rank) * t.bytes();
  return t;
}

void DeviceGather::finish() {
  parts_ = nullptr;
  if (DeviceCall* call = std::exchange(call_, nullptr)) call->wait();
}

void DeviceScatter::begin(NcclGroup& group, const std::shared_ptr<const GroupInfo>& info, Lane& lane,
                          std::shared_ptr<peer::PushSums> memory, const Communicator::ReduceScatterItem& item,
                          std::string_view label) {
  group_ = &group;
  info_ = info;
  lane_ = &lane;
  item_ = item;
  label_ = label;
  call_ = nullptr;
  given_.assign(static_cast<std::size_t>(info->size), -1);
  given_count_ = 0;
  if (memory != nullptr) {
    lane.follow_compute();  // the compute stream may still read partial sums there; begin() lets peers write
    memory->begin(item);
  }
  memory_ = std::move(memory);
  in_use_ = true;
}

void DeviceScatter::give(int rank) { give(rank, 0, item_.out.rows()); }

void DeviceScatter::give(int rank, std::int64_t first, std::int64_t rows) {
  SHARD8_REQUIRE(rank >= 0 && rank < info_->size, "reduce_scatter for {} {}: there is no rank {}", label_,
                 where(*info_), rank);
  std::int64_t& given = given_[static_cast<std::size_t>(rank)];
  SHARD8_REQUIRE(first == std::max<std::int64_t>(given, 0) && given < item_.out.rows() && rows >= 0 &&
                     first + rows <= item_.out.rows(),
                 "reduce_scatter for {} {}: rows {} to {} of {} for rank {} are given out of order or twice", label_,
                 where(*info_), first, first + rows - 1, item_.out.rows(), rank);
  given = first + rows;
  if (given == item_.out.rows()) ++given_count_;
  if (memory_ == nullptr) return;
  if (call_ == nullptr) {
    call_ = &lane_->next(info_, profile::Collective::reduce_scatter, label_);
    call_->count(item_.whole);
    lane_->start(*call_, memory_->call_in_parts());
  } else if (rank != info_->rank) {
    lane_->follow_compute();
  }
  memory_->give(rank, first, rows);
  lane_->extend(*call_, memory_->last_number());
}

void DeviceScatter::require_all_given() const {
  SHARD8_REQUIRE(given_count_ == info_->size, "reduce_scatter for {} {}: only {} of {} ranks' rows are given", label_,
                 where(*info_), given_count_, info_->size);
}

std::optional<tensor::PartialSums> DeviceScatter::finish_partial_sums() {
  const int count = info_->size + (item_.addend.empty() ? 0 : 1);
  if (memory_ == nullptr || count > tensor::PartialSums::kMost) {
    finish();
    return std::nullopt;
  }
  require_all_given();
  const tensor::PartialSums partial_sums = memory_->finish_partial_sums();
  if (DeviceCall* call = lane_->end(*call_)) call->wait();
  return partial_sums;
}

void DeviceScatter::finish() {
  require_all_given();
  DeviceCall* call = nullptr;
  if (memory_ == nullptr) {
    call = group_->reduce_scatter({&item_, 1}, label_);
  } else {
    lane_->follow_compute();  // the sum reads this rank's rows
    memory_->finish();
    call = lane_->end(*call_);
  }
  if (call != nullptr) call->wait();
}

}  // namespace shard8::comm::nccl
