// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "tensor/alignment.hpp"
#include "tensor/tensor.hpp"

namespace shard8::tensor {

/// What memory is used for. `plan` and the report list memory by these kinds.
enum class MemoryKind : std::uint8_t {
  weights,
  gathered,
  gradients,
  optimizer,
  activations,
  exchanged,  ///< what tensor ranks gather, and the parts that they sum
  buffers
};
inline constexpr int kMemoryKinds = 7;
std::string_view name_of(MemoryKind kind);

/// A bump allocator over one block of the execution space's memory. The same code lays out a run and a plan: an arena
/// made by measure() returns tensors without data and only counts, so a plan cannot disagree with a run.
class Arena {
 public:
  /// An arena that only counts: every tensor that it returns has data == nullptr.
  static Arena measure(std::string label, MemoryKind kind);
  /// An arena over one allocation of `bytes`, labelled for Kokkos Tools. Throws Error(environment) when the memory
  /// cannot be allocated.
  Arena(std::string label, MemoryKind kind, std::size_t bytes);
  /// An arena over memory of the execution space that somebody else owns: `bytes` from `memory` on. `memory` must be
  /// aligned to kAlignment.
  Arena(std::string label, MemoryKind kind, std::byte* memory, std::size_t bytes);
  Arena(Arena&&) noexcept;
  Arena& operator=(Arena&&) noexcept;
  ~Arena();

  /// A tensor in the next bytes, aligned to kAlignment. Throws when the arena is too small.
  Tensor allocate(const Shape& shape, DType dtype);

  /// A stack: release(mark) frees everything that was allocated after mark().
  std::size_t mark() const { return used_; }
  void release(std::size_t mark) { used_ = mark; }
  /// Everything allocated after `mark`, as bytes.
  Tensor since(std::size_t mark) const;

  std::size_t used() const { return used_; }
  std::size_t high_water() const { return high_water_; }
  bool measuring() const { return begin_ == nullptr; }
  MemoryKind kind() const { return kind_; }

 private:
  Arena(std::string label, MemoryKind kind);
  struct Release {
    void operator()(std::byte* p) const noexcept;
  };
  std::string label_;
  MemoryKind kind_;
  std::unique_ptr<std::byte, Release> block_;  ///< null if the memory is not the arena's own
  std::byte* begin_ = nullptr;
  std::size_t capacity_ = 0;
  std::size_t used_ = 0;
  std::size_t high_water_ = 0;
};

/// Bytes of each kind of memory.
using MemoryBytes = std::array<std::size_t, kMemoryKinds>;
std::size_t total(const MemoryBytes& bytes);

/// Memory that somebody else owns, for two of the kinds. Null: the set allocates.
struct GivenMemory {
  std::byte *gathered = nullptr, *exchanged = nullptr;
};

/// One arena for each kind of memory. Lay out with measure() first, construct the real set from its bytes(), and lay
/// out with the same code once more.
class ArenaSet {
 public:
  static ArenaSet measure();
  explicit ArenaSet(const MemoryBytes& bytes, const GivenMemory& given = {});

  Arena& operator[](MemoryKind kind) { return arenas_[static_cast<std::size_t>(kind)]; }
  /// High-water marks.
  MemoryBytes bytes() const;
  bool measuring() const { return arenas_[0].measuring(); }

 private:
  explicit ArenaSet(std::array<Arena, kMemoryKinds> arenas) : arenas_(std::move(arenas)) {}
  std::array<Arena, kMemoryKinds> arenas_;
};

}  // namespace shard8::tensor
