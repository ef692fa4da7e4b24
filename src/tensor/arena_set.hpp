// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <utility>

#include "tensor/arena.hpp"

namespace shard8::tensor {

/// Bytes by kind of memory.
using MemoryBytes = std::array<std::size_t, kMemoryKinds>;
std::size_t total(const MemoryBytes& bytes);

/// One arena for each kind of memory. Lay out with measure(), then make the real one from its
/// bytes() and lay out again with the same code.
class ArenaSet {
 public:
  static ArenaSet measure();
  /// `gathered`, if not null, is memory for that kind that somebody else owns.
  explicit ArenaSet(const MemoryBytes& bytes, std::byte* gathered = nullptr);

  Arena& operator[](MemoryKind kind) { return arenas_[static_cast<std::size_t>(kind)]; }
  /// High-water marks.
  MemoryBytes bytes() const;
  bool measuring() const { return arenas_[0].measuring(); }

 private:
  explicit ArenaSet(std::array<Arena, kMemoryKinds> arenas) : arenas_(std::move(arenas)) {}
  std::array<Arena, kMemoryKinds> arenas_;
};

}  // namespace shard8::tensor
