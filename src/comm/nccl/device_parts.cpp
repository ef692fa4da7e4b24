// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/nccl/device_parts.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "comm/nccl/nccl_group.hpp"
#include "comm/peer/sum_parts.hpp"
#include "tensor/cuda/device.hpp"
#include "tensor/dtype.hpp"

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

namespace {

// Shares begin at multiples of so many elements, so that the kernel can load 16 bytes at a time.
constexpr std::int64_t kCut = 16;

}  // namespace

TreeSums::TreeSums(std::shared_ptr<const GroupInfo> info, std::shared_ptr<NcclCommunicator> communicator,
                   std::size_t bytes, cudaStream_t stream)
    : info_(std::move(info)),
      communicator_(std::move(communicator)),
      stream_(stream),
      bytes_(bytes),
      slot_bytes_(bytes / static_cast<std::size_t>(info_->size - 1) / tensor::kAlignment * tensor::kAlignment) {
  SHARD8_REQUIRE(info_->size <= peer::kMostRanks && slot_bytes_ > 0,
                 "sums in group '{}' of {} ranks with {} bytes; needed are at most {} ranks and {} bytes of each other",
                 info_->name, info_->size, bytes, peer::kMostRanks, tensor::kAlignment);
  void* memory = nullptr;
  SHARD8_CUDA_CHECK(cudaMalloc(&memory, bytes_));
  memory_ = static_cast<std::byte*>(memory);
}

TreeSums::~TreeSums() { cudaFree(memory_); }

TreeSums::Share TreeSums::share_of(const Piece& piece, int rank) {
  const std::int64_t first = std::min(piece.share * rank, piece.count);
  const std::int64_t count = std::min(piece.share, piece.count - first);
  return {piece.data + tensor::bytes_of(piece.dtype, first), count, tensor::bytes_of(piece.dtype, count)};
}

std::byte* TreeSums::slot_of(int rank) const {
  return memory_ + static_cast<std::size_t>(rank < info_->rank ? rank : rank - 1) * slot_bytes_;
}

void TreeSums::all_reduce(std::span<const tensor::Tensor> items) {
  const std::int64_t ranks = info_->size;
  for (const tensor::Tensor& t : items) {
    const auto element = static_cast<std::int64_t>(tensor::size_of(t.dtype));
    for (std::int64_t first = 0; first < t.count();) {
      if (used_ == slot_bytes_) turn();
      // Slots and `used_` are multiples of kAlignment, so there is room for kCut elements or more.
      const std::int64_t room = static_cast<std::int64_t>(slot_bytes_ - used_) / element / kCut * kCut;
      const std::int64_t count = std::min(t.count() - first, room * ranks);
      const std::int64_t share = (count + ranks * kCut - 1) / (ranks * kCut) * kCut;
      pieces_.push_back({t.data + first * element, t.dtype, count, share, used_});
      used_ += tensor::aligned(tensor::bytes_of(t.dtype, share));
      first += count;
    }
  }
  if (!pieces_.empty()) turn();
}

void TreeSums::turn() {
  exchange([&](const Piece& piece, int to, int from) {
    send(share_of(piece, to), to);
    receive(slot_of(from) + piece.offset, share_of(piece, info_->rank).bytes, from);
  });
  for (const Piece& piece : pieces_) {
    const Share own = share_of(piece, info_->rank);
    peer::Parts parts;
    parts.order = SumOrder::tree;
    for (int rank = 0; rank < info_->size; ++rank)
      parts.add(rank == info_->rank ? own.data : slot_of(rank) + piece.offset);
    peer::sum_parts(stream_, own.data, piece.dtype, own.count, parts);
  }
  exchange([&](const Piece& piece, int to, int from) {
    send(share_of(piece, info_->rank), to);
    const Share theirs = share_of(piece, from);
    receive(theirs.data, theirs.bytes, from);
  });
  pieces_.clear();
  used_ = 0;
}

/// Calls messages(piece, to, from) for all pieces of the turn and all other ranks, inside a group of NCCL.
template <class Messages>
void TreeSums::exchange(const Messages& messages) const {
  const ncclComm_t communicator = communicator_->get();  // made outside of NCCL's group
  const int ranks = info_->size;
  SHARD8_NCCL_CHECK(ncclGroupStart(), "all_reduce", *info_, communicator);
  for (const Piece& piece : pieces_)
    for (int k = 1; k < ranks; ++k) messages(piece, (info_->rank + k) % ranks, (info_->rank - k + ranks) % ranks);
  SHARD8_NCCL_CHECK(ncclGroupEnd(), "all_reduce", *info_, communicator);
}

void TreeSums::send(const Share& share, int to) const {
  if (share.bytes == 0) return;
  const ncclComm_t communicator = communicator_->get();
  SHARD8_NCCL_CHECK(ncclSend(share.data, share.bytes, ncclUint8, to, communicator, stream_), "all_reduce", *info_,
                    communicator);
}

void TreeSums::receive(std::byte* data, std::size_t bytes, int from) const {
  if (bytes == 0) return;
  const ncclComm_t communicator = communicator_->get();
  SHARD8_NCCL_CHECK(ncclRecv(data, bytes, ncclUint8, from, communicator, stream_), "all_reduce", *info_, communicator);
}

}  // namespace shard8::comm::nccl
