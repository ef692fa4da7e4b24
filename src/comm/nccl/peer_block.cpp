// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/nccl/peer_block.hpp"

#include <exception>

#include "comm/agree.hpp"
#include "tensor/alignment.hpp"
#include "tensor/cuda/check.hpp"

namespace shard8::comm::nccl {
namespace {

// Behind the memory: the words of a Handshake, and its count.
constexpr std::size_t flag_bytes(int ranks) {
  return tensor::aligned((2 * static_cast<std::size_t>(ranks) + 1) * sizeof(std::uint32_t));
}

}  // namespace

PeerBlock::PeerBlock(const Communicator& group, std::size_t bytes, cudaStream_t stream)
    : rank_(group.rank()),
      size_(group.size()),
      bytes_(bytes),
      block_(group, tensor::aligned(bytes) + flag_bytes(group.size()), stream),
      stream_(stream) {}

PeerBlock::~PeerBlock() {
  if (std::uncaught_exceptions() == 0) static_cast<void>(cudaStreamSynchronize(stream_));
}

std::optional<std::string> PeerBlock::problem(const Communicator& group, cudaStream_t stream) {
  try {
    const IpcBlock trial(group, tensor::kAlignment, stream);
    return std::nullopt;
  } catch (const AgreedError& e) {
    return e.what();
  }
}

/// Those of rank `of`: see Handshake::words.
FlagAddress PeerBlock::words(int of) const {
  return reinterpret_cast<FlagAddress>(block_.of(of) + tensor::aligned(bytes_));
}

Handshake PeerBlock::handshake() {
  Handshake h;
  for (int r = 0; r < size_; ++r) h.words[r] = words(r);
  h.arrived = words(rank_) + 2 * size_;
  h.rank = rank_;
  h.size = size_;
  h.number = ++number_;
  return h;
}

void PeerBlock::add(int to, std::size_t offset, const std::byte* from, std::size_t bytes) {
  if (to == rank_) return own_.push_back({block_.own() + offset, from, bytes});
  to_.push_back(block_.of(to) + offset);
  from_.push_back(from);
  sizes_.push_back(bytes);
}

void PeerBlock::tell_and_await(Handshake::Word word) {
  for (int k = 1; k < size_; ++k) flags_.write(words(peer(k)) + word * size_ + rank_, number_);
  for (int k = 1; k < size_; ++k) flags_.await(words(rank_) + word * size_ + peer(k), number_);
  flags_.enqueue(stream_);
}

void PeerBlock::copy() {
  if (!sizes_.empty()) {
    cudaMemcpyAttributes attributes{};
    attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    attributes.flags = cudaMemcpyFlagPreferOverlapWithCompute;
    std::size_t first = 0;  // of the copies that have them: all
    SHARD8_CUDA_CHECK(
        cudaMemcpyBatchAsync(to_.data(), from_.data(), sizes_.data(), sizes_.size(), &attributes, &first, 1, stream_));
  }
  // Not in the batch: there the host took three times as long for them as for copies to peers.
  for (const OwnCopy& own : own_)
    SHARD8_CUDA_CHECK(cudaMemcpyAsync(own.to, own.from, own.bytes, cudaMemcpyDeviceToDevice, stream_));
  to_.clear();
  from_.clear();
  sizes_.clear();
  own_.clear();
}

void PeerBlock::push() {
  ++number_;
  tell_and_await(Handshake::ready);
  copy();
  tell_and_await(Handshake::done);
}

}  // namespace shard8::comm::nccl
