// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi/scratch.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "base/error.hpp"

namespace shard8::comm {

ScratchPool::Block::Block(Block&& other) noexcept
    : memory_(std::move(other.memory_)),
      bytes_(std::exchange(other.bytes_, 0)),
      pool_(std::exchange(other.pool_, nullptr)) {}

ScratchPool::Block& ScratchPool::Block::operator=(Block&& other) noexcept {
  if (this != &other) {
    give_back();
    memory_ = std::move(other.memory_);
    bytes_ = std::exchange(other.bytes_, 0);
    pool_ = std::exchange(other.pool_, nullptr);
  }
  return *this;
}

void ScratchPool::Block::Free::operator()(std::byte* memory) const noexcept {
  ::operator delete (memory, std::align_val_t{kAlignment});
}

void ScratchPool::Block::give_back() {
  if (ScratchPool* pool = std::exchange(pool_, nullptr)) pool->free_.push_back(std::move(*this));
}

ScratchPool::Block ScratchPool::take(std::size_t bytes) {
  if (bytes == 0) return {};
  // The smallest that is large enough, else the largest, to be replaced.
  auto best = free_.end();
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    if (best == free_.end()) {
      best = it;
    } else if (it->bytes_ >= bytes) {
      if (best->bytes_ < bytes || it->bytes_ < best->bytes_) best = it;
    } else if (best->bytes_ < it->bytes_) {
      best = it;
    }
  }
  Block block;
  if (best != free_.end()) {
    block = std::move(*best);
    free_.erase(best);
  }
  if (block.bytes_ < bytes) {
    bytes_ -= block.bytes_;
    block.memory_.reset();
    block.bytes_ = 0;
    auto* memory = measuring_
                       ? nullptr
                       : static_cast<std::byte*>(::operator new (bytes, std::align_val_t{kAlignment}, std::nothrow));
    if (memory == nullptr && !measuring_) {
      base::fail(base::ExitCode::environment,
                 "cannot allocate {} bytes to receive a collective in (the pool holds {} bytes); use fewer ranks "
                 "per node or a larger mesh",
                 bytes, bytes_);
    }
    block.memory_.reset(memory);
    block.bytes_ = bytes;
    bytes_ += bytes;
  }
  block.pool_ = this;
  return block;
}

}  // namespace shard8::comm
