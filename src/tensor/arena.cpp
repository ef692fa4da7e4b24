// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "tensor/arena.hpp"

#include <sys/mman.h>

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>

#include "tensor/runtime.hpp"

namespace shard8::tensor {

namespace {

/// Bytes by which a host arena's allocation is longer than the arena, which begins with a page: direct I/O can write
/// from memory that begins so (io::RawFile::write_direct).
constexpr std::size_t kPage = kDevice ? 0 : 4096;

/// The first address from `begin` on that is a multiple of `unit`.
std::byte* rounded_up(std::byte* begin, std::size_t unit) {
  return begin + (unit - reinterpret_cast<std::uintptr_t>(begin) % unit) % unit;
}

/// Requests huge pages of the system, where it has them, for host memory that has not been used: fewer page faults at
/// the start, fewer address translations in every step.
void use_huge_pages(std::byte* begin, std::size_t bytes) {
  constexpr std::size_t kHugePage = std::size_t{2} << 20;
  std::byte* const first = rounded_up(begin, kHugePage);
  if (first >= begin + bytes) return;
  const auto left = static_cast<std::size_t>(begin + bytes - first);
  ::madvise(first, left / kHugePage * kHugePage, MADV_HUGEPAGE);  // advice: may be refused
}

}  // namespace

std::string_view name_of(MemoryKind kind) {
  constexpr std::array<std::string_view, kMemoryKinds> names{"weights",     "gathered",  "gradients", "optimizer",
                                                             "activations", "exchanged", "pushed",    "buffers"};
  return names[static_cast<std::size_t>(kind)];
}

void Arena::Release::operator()(std::byte* p) const noexcept { Kokkos::kokkos_free<Exec::memory_space>(p); }

Arena::Arena(std::string label, MemoryKind kind) : label_(std::move(label)), kind_(kind) {}

namespace {
/// Between the addresses of two kinds in measuring arenas. Chosen: more than a plan can need, which may be for far too
/// few ranks. No machine has such addresses.
constexpr std::size_t kApart = std::size_t{1} << 58;
}  // namespace

Arena::Place Arena::place_of(const std::byte* measured) {
  const auto address = reinterpret_cast<std::uintptr_t>(measured);
  SHARD8_REQUIRE(address >= kApart && address / kApart <= kMemoryKinds, "address {} is of no measuring arena", address);
  return {static_cast<MemoryKind>(address / kApart - 1), address % kApart};
}

Arena Arena::measure(std::string label, MemoryKind kind) {
  Arena arena(std::move(label), kind);
  arena.begin_ = reinterpret_cast<std::byte*>((static_cast<std::uintptr_t>(kind) + 1) * kApart);
  arena.capacity_ = kApart;
  arena.measuring_ = true;
  return arena;
}

Arena::Arena(std::string label, MemoryKind kind, std::size_t bytes) : Arena(std::move(label), kind) {
  capacity_ = std::max(bytes, kAlignment);
  try {
    block_.reset(static_cast<std::byte*>(
        Kokkos::kokkos_malloc<Exec::memory_space>("shard8::arena::" + label_, capacity_ + kPage)));
    begin_ = block_.get();
    if constexpr (!kDevice) {
      begin_ = rounded_up(begin_, kPage);
      use_huge_pages(begin_, capacity_);
    }
  } catch (const std::exception& e) {
    base::fail(base::ExitCode::environment, "arena '{}': cannot allocate {} bytes: {}", label_, capacity_, e.what());
  }
}

Arena::Arena(std::string label, MemoryKind kind, std::byte* memory, std::size_t bytes) : Arena(std::move(label), kind) {
  begin_ = memory;
  capacity_ = bytes;
}

Arena::Arena(Arena&&) noexcept = default;
Arena& Arena::operator=(Arena&&) noexcept = default;
Arena::~Arena() = default;

Tensor Arena::allocate(const Shape& shape, DType dtype) {
  Tensor t{nullptr, shape, dtype};
  const std::size_t bytes = aligned(t.bytes());
  SHARD8_REQUIRE(used_ + bytes <= capacity_, "arena '{}' of {} bytes has {} left, {} {} needs {}", label_, capacity_,
                 capacity_ - used_, to_string(shape), name_of(dtype), bytes);
  t.data = begin_ + used_;
  used_ += bytes;
  high_water_ = std::max(high_water_, used_);
  return t;
}

Tensor Arena::since(std::size_t mark) const {
  return {begin_ + mark, {static_cast<std::int64_t>(used_ - mark)}, DType::u8};
}

namespace {

template <class Make>
std::array<Arena, kMemoryKinds> for_each_kind(Make make) {
  return {make(MemoryKind::weights),   make(MemoryKind::gathered),    make(MemoryKind::gradients),
          make(MemoryKind::optimizer), make(MemoryKind::activations), make(MemoryKind::exchanged),
          make(MemoryKind::pushed),    make(MemoryKind::buffers)};
}

}  // namespace

std::size_t total(const MemoryBytes& bytes) { return std::accumulate(bytes.begin(), bytes.end(), std::size_t{0}); }

ArenaSet ArenaSet::measure() {
  return ArenaSet(for_each_kind([](MemoryKind kind) { return Arena::measure(std::string(name_of(kind)), kind); }));
}

ArenaSet::ArenaSet(const MemoryBytes& bytes, const GivenMemory& given)
    : ArenaSet(for_each_kind([&](MemoryKind kind) {
        const std::size_t size = bytes[static_cast<std::size_t>(kind)];
        std::byte* const memory = given[kind];
        if (memory != nullptr) return Arena(std::string(name_of(kind)), kind, memory, size);
        return Arena(std::string(name_of(kind)), kind, size);
      })) {}

MemoryBytes ArenaSet::bytes() const {
  MemoryBytes result{};
  for (std::size_t k = 0; k < result.size(); ++k) result[k] = arenas_[k].high_water();
  return result;
}

}  // namespace shard8::tensor
