// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "tensor/arena_set.hpp"

#include <numeric>
#include <string>

namespace shard8::tensor {

namespace {

template <class Make>
std::array<Arena, kMemoryKinds> for_each_kind(Make make) {
  return {make(MemoryKind::weights),   make(MemoryKind::gathered),    make(MemoryKind::gradients),
          make(MemoryKind::optimizer), make(MemoryKind::activations), make(MemoryKind::exchanged),
          make(MemoryKind::buffers)};
}

}  // namespace

std::size_t total(const MemoryBytes& bytes) { return std::accumulate(bytes.begin(), bytes.end(), std::size_t{0}); }

ArenaSet ArenaSet::measure() {
  return ArenaSet(for_each_kind([](MemoryKind kind) { return Arena::measure(std::string(name_of(kind)), kind); }));
}

ArenaSet::ArenaSet(const MemoryBytes& bytes, const GivenMemory& given)
    : ArenaSet(for_each_kind([&](MemoryKind kind) {
        const std::size_t size = bytes[static_cast<std::size_t>(kind)];
        std::byte* const memory = kind == MemoryKind::gathered    ? given.gathered
                                  : kind == MemoryKind::exchanged ? given.exchanged
                                                                  : nullptr;
        if (memory != nullptr) return Arena(std::string(name_of(kind)), kind, memory, size);
        return Arena(std::string(name_of(kind)), kind, size);
      })) {}

MemoryBytes ArenaSet::bytes() const {
  MemoryBytes result{};
  for (std::size_t k = 0; k < result.size(); ++k) result[k] = arenas_[k].high_water();
  return result;
}

}  // namespace shard8::tensor
