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

/// Memory for these kinds that somebody else owns, where it is not null.
struct GivenMemory {
  std::byte *gathered = nullptr, *exchanged = nullptr;
};

/// One arena for each kind of memory. Lay out with measure(), then make the real one from its
/// bytes() and lay out again with the same code.
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
