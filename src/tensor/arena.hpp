// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "tensor/dtype.hpp"
#include "tensor/tensor.hpp"

namespace shard8::tensor {

/// What memory is used for. `plan` and the report list memory by these kinds.
enum class MemoryKind : std::uint8_t {
  weights,
  gathered,
  gradients,
  optimizer,
  activations,
  exchanged,  ///< matrices that tensor ranks gather, and partial results that they sum
  pushed,     ///< rows and results of experts that the ranks of an expert group write to each other
  buffers
};
inline constexpr int kMemoryKinds = 8;
std::string_view name_of(MemoryKind kind);

/// A bump allocator over one block of the execution space's memory: it hands out tensors one after the other. An arena
/// made by measure() has no memory: the addresses of its tensors must never be read or written. The same code lays out
/// a run and a plan, so a plan cannot disagree with a run.
class Arena {
 public:
  /// An arena that only counts. The arena's tensors have addresses that differ, also from the addresses of other kinds.
  static Arena measure(std::string label, MemoryKind kind);
  /// Where a tensor of a measuring arena lies: bytes from the begin of its kind.
  struct Place {
    MemoryKind kind;
    std::size_t offset;
  };
  static Place place_of(const std::byte* measured);
  /// An arena over one allocation of `bytes` (kAlignment at least), labelled "shard8::arena::" + label for Kokkos
  /// Tools. Throws Error(environment) when the memory cannot be allocated.
  Arena(std::string label, MemoryKind kind, std::size_t bytes);
  /// An arena over memory that somebody else owns: `bytes` from `memory` on, in the execution space. `memory` must not
  /// be null, must be aligned to kAlignment and must outlive the arena.
  Arena(std::string label, MemoryKind kind, std::byte* memory, std::size_t bytes);
  Arena(Arena&&) noexcept;
  Arena& operator=(Arena&&) noexcept;
  ~Arena();

  /// A tensor in the next free bytes, aligned to kAlignment, not initialised. Throws Error(failed) when the arena is
  /// too small.
  Tensor allocate(const Shape& shape, DType dtype);

  /// mark() returns the present end of what is allocated, in bytes. release(mark) frees everything that was allocated
  /// since that mark: later tensors take the same memory.
  std::size_t mark() const { return used_; }
  void release(std::size_t mark) { used_ = mark; }
  /// Everything allocated since `mark`, padding included, as one tensor of u8.
  Tensor since(std::size_t mark) const;

  /// Bytes allocated now, and the most bytes that were ever allocated at once; both include padding.
  std::size_t used() const { return used_; }
  std::size_t high_water() const { return high_water_; }
  /// Whether the arena only counts.
  bool measuring() const { return measuring_; }
  MemoryKind kind() const { return kind_; }

 private:
  Arena(std::string label, MemoryKind kind);
  struct Release {
    void operator()(std::byte* p) const noexcept;
  };
  std::string label_;
  MemoryKind kind_;
  std::unique_ptr<std::byte, Release> block_;  ///< null if somebody else owns the memory
  std::byte* begin_ = nullptr;
  bool measuring_ = false;
  std::size_t capacity_ = 0;
  std::size_t used_ = 0;
  std::size_t high_water_ = 0;
};

/// Bytes of each kind of memory, indexed by MemoryKind.
using MemoryBytes = std::array<std::size_t, kMemoryKinds>;
std::size_t total(const MemoryBytes& bytes);

/// Memory that somebody else owns, by kind; null: the ArenaSet allocates it. The caller must give as many bytes as the
/// ArenaSet is constructed with.
class GivenMemory {
 public:
  std::byte*& operator[](MemoryKind kind) { return memory_[static_cast<std::size_t>(kind)]; }
  std::byte* operator[](MemoryKind kind) const { return memory_[static_cast<std::size_t>(kind)]; }

 private:
  std::array<std::byte*, kMemoryKinds> memory_{};
};

/// One arena for each kind of memory. The caller lays out all tensors in measure(), constructs the real set from its
/// bytes(), and lays out the same tensors with the same code in the real set.
class ArenaSet {
 public:
  static ArenaSet measure();
  explicit ArenaSet(const MemoryBytes& bytes, const GivenMemory& given = {});

  Arena& operator[](MemoryKind kind) { return arenas_[static_cast<std::size_t>(kind)]; }
  /// The high-water mark of each arena, in bytes.
  MemoryBytes bytes() const;
  bool measuring() const { return arenas_[0].measuring(); }

 private:
  explicit ArenaSet(std::array<Arena, kMemoryKinds> arenas) : arenas_(std::move(arenas)) {}
  std::array<Arena, kMemoryKinds> arenas_;
};

/// Lays out several groups of tensors in the same memory of an arena. The groups must never be in use at the same time.
/// Together they take as much memory as the largest group. Nothing else may be allocated from the arena between
/// construction and close().
class Overlay {
 public:
  explicit Overlay(Arena& arena) : arena_(arena), begin_(arena.mark()) {}

  /// Adds a group: lay_out() allocates its tensors from the arena.
  template <class LayOut>
  void add(const LayOut& lay_out) {
    lay_out();
    bytes_ = std::max(bytes_, arena_.mark() - begin_);
    arena_.release(begin_);
  }
  /// Keeps the memory of the largest group allocated. Call it once, after the last add().
  void close() { arena_.allocate({static_cast<std::int64_t>(bytes_)}, DType::u8); }

 private:
  Arena& arena_;
  std::size_t begin_, bytes_ = 0;
};

/// Lays out one group for each of `lay_outs` in the same memory, as Overlay does. Each of `lay_outs` is a call that
/// allocates tensors from `arena`.
template <class... LayOuts>
void overlay(Arena& arena, const LayOuts&... lay_outs) {
  Overlay memory(arena);
  (memory.add(lay_outs), ...);
  memory.close();
}

}  // namespace shard8::tensor
