// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/peer/slot_memory.hpp"

#include "base/error.hpp"
#include "tensor/alignment.hpp"
#include "tensor/cuda/check.hpp"

namespace shard8::comm::peer {
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
