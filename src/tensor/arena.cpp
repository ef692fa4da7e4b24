// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "tensor/arena.hpp"

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <utility>

#include "tensor/exec.hpp"

namespace shard8::tensor {

std::string_view name_of(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::weights:
      return "weights";
    case MemoryKind::gathered:
      return "gathered";
    case MemoryKind::gradients:
      return "gradients";
    case MemoryKind::optimizer:
      return "optimizer";
    case MemoryKind::activations:
      return "activations";
    case MemoryKind::exchanged:
      return "exchanged";
    case MemoryKind::buffers:
      return "buffers";
  }
  return "?";
}

void Arena::Release::operator()(std::byte* p) const noexcept { Kokkos::kokkos_free<Exec::memory_space>(p); }

Arena::Arena(std::string label, MemoryKind kind) : label_(std::move(label)), kind_(kind) {}

Arena Arena::measure(std::string label, MemoryKind kind) { return Arena(std::move(label), kind); }

Arena::Arena(std::string label, MemoryKind kind, std::size_t bytes) : Arena(std::move(label), kind) {
  capacity_ = std::max(bytes, kAlignment);
  try {
    block_.reset(
        static_cast<std::byte*>(Kokkos::kokkos_malloc<Exec::memory_space>("shard8::arena::" + label_, capacity_)));
    begin_ = block_.get();
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
  if (begin_ != nullptr) {
    SHARD8_REQUIRE(used_ + bytes <= capacity_, "arena '{}' of {} bytes has {} left, {} {} needs {}", label_, capacity_,
                   capacity_ - used_, to_string(shape), name_of(dtype), bytes);
    t.data = begin_ + used_;
  }
  used_ += bytes;
  high_water_ = std::max(high_water_, used_);
  return t;
}

Tensor Arena::since(std::size_t mark) const {
  return {begin_ == nullptr ? nullptr : begin_ + mark, {static_cast<std::int64_t>(used_ - mark)}, DType::u8};
}

}  // namespace shard8::tensor
