// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "tensor/transfer.hpp"

#include <Kokkos_Core.hpp>
#include <cstring>
#include <string>

namespace shard8::tensor {

namespace {

using Device = Kokkos::View<std::byte*, Exec::memory_space, Kokkos::MemoryUnmanaged>;
using Host = Kokkos::View<std::byte*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>;
using ConstHost = Kokkos::View<const std::byte*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>;

}  // namespace

// Hosts use memcpy: Kokkos would allocate a name for a fence at every call.

void to_device(const Exec& exec, const Tensor& to, const void* from) {
  if (to.empty()) return;
  if constexpr (!kDevice) {
    finish(exec);
    std::memcpy(to.data, from, to.bytes());
    return;
  }
  Kokkos::deep_copy(exec, Device(to.data, to.bytes()), ConstHost(static_cast<const std::byte*>(from), to.bytes()));
}

void to_host(const Exec& exec, void* to, const Tensor& from) {
  if constexpr (!kDevice) {
    finish(exec);
    if (!from.empty()) std::memcpy(to, from.data, from.bytes());
    return;
  }
  if (!from.empty())
    Kokkos::deep_copy(exec, Host(static_cast<std::byte*>(to), from.bytes()), Device(from.data, from.bytes()));
  finish(exec);
}

std::span<const std::byte> read_on_host(const Exec& exec, const Tensor& from, std::vector<std::byte>& copy) {
  if constexpr (!kDevice) {
    finish(exec);
    return {from.data, from.bytes()};
  }
  copy.resize(from.bytes());
  to_host(exec, copy.data(), from);
  return copy;
}

void write_on_host(const Exec& exec, const Tensor& to, const std::function<void(const Tensor& host)>& write) {
  if constexpr (!kDevice) {
    finish(exec);
    return write(to);
  }
  std::vector<std::byte> values(to.bytes());
  write({values.data(), to.shape, to.dtype});
  to_device(exec, to, values.data());
}

void finish(const Exec& exec) {
  static const std::string name = "shard8::tensor::finish";
  exec.fence(name);
}

}  // namespace shard8::tensor
