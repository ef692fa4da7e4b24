// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace shard8::comm {

/// Memory in which pending collectives receive. Blocks are kept for the next call, so that a steady
/// state allocates nothing; a block that is too small is replaced by a larger one.
class ScratchPool {
 public:
  static constexpr std::size_t kAlignment = 64;

  ScratchPool() = default;
  /// One that only counts: its blocks have no memory. What a run will take is found by taking the
  /// same from it.
  static ScratchPool measure() { return ScratchPool(true); }

  /// Memory on loan; goes back to its pool on destruction. The pool must outlive it.
  class Block {
   public:
    Block() = default;
    Block(Block&& other) noexcept;
    Block& operator=(Block&& other) noexcept;
    ~Block() { give_back(); }

    std::byte* data() const { return memory_.get(); }
    void give_back();

   private:
    friend class ScratchPool;
    struct Free {
      void operator()(std::byte* memory) const noexcept;
    };
    std::unique_ptr<std::byte, Free> memory_;
    std::size_t bytes_ = 0;
    ScratchPool* pool_ = nullptr;
  };

  /// At least `bytes`, aligned to kAlignment, of undefined content; nothing for 0. Throws
  /// Error(environment) with the size when the memory cannot be had.
  Block take(std::size_t bytes);
  /// All memory of the pool, on loan or not.
  std::size_t bytes() const { return bytes_; }

 private:
  explicit ScratchPool(bool measuring) : measuring_(measuring) {}
  std::vector<Block> free_;
  std::size_t bytes_ = 0;
  bool measuring_ = false;
};

}  // namespace shard8::comm
