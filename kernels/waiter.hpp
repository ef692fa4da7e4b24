// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "tensor/exec.hpp"

namespace shard8::kernels {

/// Waits in the place of kernels, for skeleton runs: on hosts the calling thread sleeps and, for the last moments,
/// spins; on a device a kernel of one block spins, so that all other multiprocessors are free.
class Waiter {
 public:
  /// `read_bandwidth`, in bytes a second: while it waits, it reads so much of its own memory(), as a kernel bound by
  /// memory would; on a device by as many blocks as that takes. 0: it reads nothing. On a device the constructor times
  /// what a kernel takes that waits for nothing, which wait() then subtracts. Throws Error(environment) when the memory
  /// cannot be allocated.
  Waiter(const tensor::Exec& exec, double read_bandwidth);
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;
  ~Waiter();

  /// Waits `seconds` in the order of the execution space; nothing for 0 or less. A wait on hosts that ends late makes
  /// the next one shorter, by up to 1 ms: the sum of many is right.
  void wait(const tensor::Exec& exec, double seconds);
  /// Bytes that it reads, over and over; 0 without a bandwidth.
  std::size_t memory() const;
  /// Bytes that it has read so far on hosts; 0 on a device.
  std::uint64_t bytes_read() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace shard8::kernels
