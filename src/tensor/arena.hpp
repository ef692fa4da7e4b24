// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "tensor/alignment.hpp"
#include "tensor/tensor.hpp"

namespace shard8::tensor {

/// What memory is for; `plan` and the report list it by these.
enum class MemoryKind : std::uint8_t {
  weights,
  gathered,
  gradients,
  optimizer,
  activations,
  exchanged,  ///< what tensor ranks gather, and of what they sum
  buffers
};
inline constexpr int kMemoryKinds = 7;
std::string_view name_of(MemoryKind kind);

/// A bump allocator over one block of the execution space's memory. The same code that lays out a
/// run also lays out a plan: an arena made by measure() hands out tensors without data and only
/// counts, so a plan cannot disagree with a run.
class Arena {
 public:
  /// Counts only; every tensor it returns has data == nullptr.
  static Arena measure(std::string label, MemoryKind kind);
  /// One allocation of `bytes`, labelled for Kokkos Tools. Throws Error(environment) with both
  /// numbers when the memory cannot be had.
  Arena(std::string label, MemoryKind kind, std::size_t bytes);
  /// The same over memory of the execution space that somebody else owns: `bytes` from `memory` on,
  /// which is aligned to kAlignment.
  Arena(std::string label, MemoryKind kind, std::byte* memory, std::size_t bytes);
  Arena(Arena&&) noexcept;
  Arena& operator=(Arena&&) noexcept;
  ~Arena();

  /// A tensor of the next bytes, aligned to kAlignment. Throws when the arena is too small.
  Tensor allocate(const Shape& shape, DType dtype);

  /// Stack discipline: everything allocated after mark() is given back by release(mark).
  std::size_t mark() const { return used_; }
  void release(std::size_t mark) { used_ = mark; }
  /// All of it as bytes.
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
  std::unique_ptr<std::byte, Release> block_;  ///< if it is this arena's own
  std::byte* begin_ = nullptr;
  std::size_t capacity_ = 0;
  std::size_t used_ = 0;
  std::size_t high_water_ = 0;
};

}  // namespace shard8::tensor
