// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/nccl/tree_sums.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "comm/peer/sum_parts.hpp"
#include "tensor/alignment.hpp"
#include "tensor/cuda/check.hpp"

namespace shard8::comm::nccl {
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
