// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/peer/peer_memory.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "comm/describe.hpp"
#include "tensor/cuda/device.hpp"
#include "tensor/dtype.hpp"

namespace shard8::comm::peer {

namespace {

int half_of_multiprocessors() {
  return std::max(tensor::cuda::describe_device(tensor::cuda::current_device()).multiprocessors / 2, 1);
}

Turn turn(std::size_t i, std::size_t count) { return {i == 0, i + 1 == count}; }

/// Calls use(rows, offset) for this rank's rows of each tensor that has some; `offset` is their place in a rank's
/// memory.
template <class Use>
void for_each_rows(const PeerBlock& block, std::span<const tensor::Tensor> whole, std::span<const tensor::Tensor> own,
                   const Use& use) {
  for (std::size_t i = 0; i < whole.size(); ++i) {
    const OwnRows rows = own_rows(whole, own, i, block.rank(), block.size());
    if (rows.bytes > 0) use(rows, static_cast<std::size_t>(rows.place - block.data()));
  }
}

}  // namespace

/// Adds copies of this rank's rows to the same place in the memory of rank `to`. Nothing is copied where the rows are
/// at their place already, which they can be in this rank's own memory.
void PeerMemory::add_rows(int to, std::span<const tensor::Tensor> whole, std::span<const tensor::Tensor> own) {
  for_each_rows(block_, whole, own, [&](const OwnRows& rows, std::size_t offset) {
    if (to != block_.rank() || rows.elsewhere()) block_.add(to, offset, rows.data, rows.bytes);
  });
}

void PeerMemory::gather(std::span<const tensor::Tensor> whole, std::span<const tensor::Tensor> own,
                        Communicator::OwnPart own_part) {
  for (int k = 1; k < block_.size(); ++k) add_rows(block_.peer(k), whole, own);
  if (own_part == Communicator::OwnPart::copied) {
    add_rows(block_.rank(), whole, own);
  } else {
    for_each_rows(block_, whole, own, [&](const OwnRows& rows, std::size_t offset) {
      if (rows.elsewhere()) block_.add_return(offset, rows.bytes);
    });
  }
  block_.push();
}

void PeerMemory::gather_parts(std::span<const tensor::Tensor> whole, std::span<const tensor::Tensor> own) {
  block_.tell_ready();
  block_.await_ready();
  for (int k = 1; k < block_.size(); ++k) {
    add_rows(block_.peer(k), whole, own);
    block_.push_to(block_.peer(k));
  }
}

void PeerMemory::gather_columns(const tensor::Tensor& whole, const tensor::Tensor& own,
                                Communicator::OwnPart own_part) {
  const OwnColumns columns = own_columns(whole, own, block_.rank());
  const auto offset = static_cast<std::size_t>(columns.place - data());
  const auto add = [&](int to) {
    block_.add_rows(to, offset, columns.pitch, columns.data, columns.width, columns.rows);
  };
  for (int k = 1; k < block_.size(); ++k) add(block_.peer(k));
  if (own_part == Communicator::OwnPart::copied)
    add(block_.rank());
  else
    block_.add_return_of_rows(offset, columns.pitch, columns.width, columns.rows);
  block_.push();
}

void PeerMemory::copy_own(std::span<const tensor::Tensor> whole, std::span<const tensor::Tensor> own) {
  add_rows(block_.rank(), whole, own);
  block_.push_to(block_.rank());
}

ExchangeMemory::ExchangeMemory(const Communicator& group, std::size_t bytes, cudaStream_t stream)
    : block_(group, bytes, stream), kernels_{stream, half_of_multiprocessors()} {}

void ExchangeMemory::gather(std::span<const tensor::Tensor> whole, std::span<const tensor::Tensor> own,
                            Communicator::OwnPart) {
  const Handshake handshake = block_.handshake();
  for (std::size_t i = 0; i < whole.size(); ++i) {
    const OwnRows rows = own_rows(whole, own, i, block_.rank(), block_.size());
    ExchangeKernels::Destinations copies;
    for (int k = 1; k <= block_.size(); ++k) {
      const int to = block_.peer(k);
      if (to != block_.rank() || rows.elsewhere()) copies.add(block_.of(to) + (rows.place - data()));
    }
    kernels_.copy(handshake, turn(i, whole.size()), rows.data, rows.bytes, copies);
  }
}

void ExchangeMemory::gather_columns(const tensor::Tensor& whole, const tensor::Tensor& own, Communicator::OwnPart) {
  const OwnColumns columns = own_columns(whole, own, block_.rank());
  ExchangeKernels::Destinations copies;
  for (int k = 1; k <= block_.size(); ++k) copies.add(block_.of(block_.peer(k)) + (columns.place - data()));
  kernels_.copy_rows(block_.handshake(), columns.data, columns.rows, columns.width, columns.pitch, copies);
}

void ExchangeMemory::reduce_scatter(std::span<const Communicator::ReduceScatterItem> items) {
  const Handshake handshake = block_.handshake();
  for (std::size_t i = 0; i < items.size(); ++i) {
    const auto& item = items[i];
    const std::ptrdiff_t rows = rows_of(item, block_.rank()) - data();
    Parts parts;
    for (int r = 0; r < block_.size(); ++r) parts.add(block_.of(r) + rows);
    if (!item.addend.empty()) parts.add(item.addend.data);
    kernels_.sum(handshake, turn(i, items.size()), item.out.data, item.out.dtype, item.out.count(), parts);
  }
}

void PushedMemory::begin(Communicator::PeersRead peers_read) {
  using Meeting = ExchangeKernels::Meeting;
  handshake_ = block_.handshake();
  const bool waits = peers_read == Communicator::PeersRead::waited_for;
  if (waits) kernels_.meet(handshake_, Meeting::ready);
  ends_by_ = waits ? Meeting::done : Meeting::done_alone;
}

void PushedMemory::end() { kernels_.meet(handshake_, ends_by_); }

namespace {

/// Parts of equal distance lie one behind the other.
bool begins_slot(std::span<const PeerPart> parts, std::size_t i) { return i == 0 || parts[i].to != parts[i - 1].to; }

}  // namespace

/// Calls use(part, to, from) for each part that goes to another rank, if there is room for the part; `to` and `from`
/// are where it lies in its receiver's memory and where the part lies that this rank receives. Slot k of every rank is
/// for the parts of the k-th distance, so sender and receiver agree on it.
template <class Use>
void SlotMemory::for_each_part(std::span<const PeerPart> parts, const Use& use) const {
  const auto own = [&](const PeerPart& part) { return part.to == block_.rank(); };
  std::size_t slots = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) slots += !own(parts[i]) && begins_slot(parts, i) ? 1 : 0;
  if (slots == 0) return;
  const std::size_t slot_bytes = block_.bytes() / slots / tensor::kAlignment * tensor::kAlignment;
  std::size_t end = 0, to = 0, from = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const PeerPart& part = parts[i];
    if (own(part)) continue;
    if (begins_slot(parts, i)) {
      to = from = end;
      end += slot_bytes;
    }
    use(part, to, from);
    to += tensor::aligned(part.in.bytes());
    from += tensor::aligned(part.out.bytes());
    SHARD8_REQUIRE(to <= end && from <= end,
                   "rank {} of {} sends {} bytes to rank {} and receives {} of rank {}, but its all_to_all_memory has "
                   "{} bytes for each peer of this call: take more",
                   block_.rank(), block_.size(), part.in.bytes(), part.to, part.out.bytes(), part.from, slot_bytes);
  }
}

void SlotMemory::require_room(std::span<const PeerPart> parts) const {
  for_each_part(parts, [](const PeerPart&, std::size_t, std::size_t) {});
}

void SlotMemory::exchange(std::span<const PeerPart> parts) {
  for_each_part(parts, [&](const PeerPart& part, std::size_t to, std::size_t) {
    if (!part.in.empty()) block_.add(part.to, to, part.in.data, part.in.bytes());
  });
  block_.push();
  const auto copy = [&](const tensor::Tensor& out, const std::byte* from) {
    if (out.empty()) return;
    SHARD8_CUDA_CHECK(cudaMemcpyAsync(out.data, from, out.bytes(), cudaMemcpyDeviceToDevice, block_.stream()));
  };
  for_each_part(parts, [&](const PeerPart& part, std::size_t, std::size_t from) { copy(part.out, data() + from); });
  for (const PeerPart& part : parts)
    if (part.to == block_.rank()) copy(part.out, part.in.data);
}

}  // namespace shard8::comm::peer
