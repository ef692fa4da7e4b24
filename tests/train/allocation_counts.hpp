// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace shard8::test {

/// The allocations of a program that links allocation_counts.cpp, since its start.
struct AllocationCounts {
  static constexpr std::size_t kLarge = 4096;  ///< bytes; chosen: lists and names are smaller
  std::uint64_t host = 0;                      ///< calls of operator new by this thread, without those in `attention`
  std::uint64_t large = 0;                     ///< calls of operator new by this thread for at least kLarge bytes
  /// Calls of CUDA's run-time library by this program that take or free memory of the device or pinned memory of the
  /// host. Calls by libraries, which have a run-time library of their own, are not counted. 0 in builds for hosts.
  std::uint64_t device = 0;
  /// Calls of operator new by this thread while cuDNN executes a plan; no caller can avoid them.
  std::uint64_t attention = 0;
};
AllocationCounts allocation_counts();

}  // namespace shard8::test
