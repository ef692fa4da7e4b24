// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "tensor/transfer.hpp"

#include <Kokkos_Core.hpp>

namespace shard8::tensor {

namespace {

using Device = Kokkos::View<std::byte*, Exec::memory_space, Kokkos::MemoryUnmanaged>;
using Host = Kokkos::View<std::byte*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>;
using ConstHost = Kokkos::View<const std::byte*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>;

}  // namespace

void to_device(const Exec& exec, const Tensor& to, const void* from) {
  if (to.empty()) return;
  Kokkos::deep_copy(exec, Device(to.data, to.bytes()), ConstHost(static_cast<const std::byte*>(from), to.bytes()));
}

void to_host(const Exec& exec, void* to, const Tensor& from) {
  if (!from.empty())
    Kokkos::deep_copy(exec, Host(static_cast<std::byte*>(to), from.bytes()), Device(from.data, from.bytes()));
  finish(exec);
}

void finish(const Exec& exec) { exec.fence("shard8::tensor::finish"); }

}  // namespace shard8::tensor
