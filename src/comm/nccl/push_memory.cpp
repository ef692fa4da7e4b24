// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/nccl/push_memory.hpp"

#include <exception>

#include "comm/agree.hpp"
#include "tensor/cuda/check.hpp"

namespace shard8::comm::nccl {
namespace {

// Flags begin behind the buffers at such a multiple.
constexpr std::size_t kAlignment = 256;

constexpr std::size_t aligned(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

constexpr std::size_t flag_bytes(int ranks) {
  return aligned(2 * static_cast<std::size_t>(ranks) * sizeof(std::uint32_t));
}

}  // namespace

PushMemory::PushMemory(const Communicator& group, std::size_t bytes, cudaStream_t stream)
    : rank_(group.rank()),
      size_(group.size()),
      bytes_(bytes),
      block_(group, aligned(bytes) + flag_bytes(group.size()), stream),
      stream_(stream) {}

std::optional<std::string> PushMemory::problem(const Communicator& group, cudaStream_t stream) {
  try {
    const IpcBlock trial(group, kAlignment, stream);
    return std::nullopt;
  } catch (const AgreedError& e) {
    return e.what();
  }
}

bool PushMemory::holds(std::span<const tensor::Tensor> tensors) const {
  for (const tensor::Tensor& t : tensors) {
    if (t.empty()) continue;
    if (t.data < data() || t.data + t.bytes() > data() + bytes_) return false;
  }
  return true;
}

/// The word of rank `of` that rank `by` writes to.
FlagAddress PushMemory::flag(int of, Flag kind, int by) const {
  return reinterpret_cast<FlagAddress>(block_.of(of) + aligned(bytes_)) + kind * size_ + by;
}

/// This rank's rows, to where they lie at rank `to`: at the same place in its memory.
void PushMemory::plan_copies(std::span<const tensor::Tensor> whole, int to) {
  for (const tensor::Tensor& t : whole) {
    const std::size_t shard = t.bytes() / static_cast<std::size_t>(size_);
    if (shard == 0) continue;
    const std::byte* const own = t.data + static_cast<std::size_t>(rank_) * shard;
    from_.push_back(own);
    to_.push_back(block_.of(to) + (own - data()));
    sizes_.push_back(shard);
  }
}

void PushMemory::copy() {
  if (!sizes_.empty()) {
    cudaMemcpyAttributes attributes{};
    attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    attributes.flags = cudaMemcpyFlagPreferOverlapWithCompute;
    std::size_t first = 0;  // of the copies that have them: all
    SHARD8_CUDA_CHECK(
        cudaMemcpyBatchAsync(to_.data(), from_.data(), sizes_.data(), sizes_.size(), &attributes, &first, 1, stream_));
  }
  to_.clear();
  from_.clear();
  sizes_.clear();
}

void PushMemory::gather(std::span<const tensor::Tensor> whole) {
  ++number_;
  for (int k = 1; k < size_; ++k) flags_.write(flag(peer(k), ready, rank_), number_);
  for (int k = 1; k < size_; ++k) flags_.await(flag(rank_, ready, peer(k)), number_);
  flags_.enqueue(stream_);
  for (int k = 1; k < size_; ++k) plan_copies(whole, peer(k));
  copy();
  for (int k = 1; k < size_; ++k) flags_.write(flag(peer(k), arrived, rank_), number_);
  for (int k = 1; k < size_; ++k) flags_.await(flag(rank_, arrived, peer(k)), number_);
  flags_.enqueue(stream_);
}

PushMemory::~PushMemory() {
  if (std::uncaught_exceptions() == 0) static_cast<void>(cudaStreamSynchronize(stream_));
}

}  // namespace shard8::comm::nccl
