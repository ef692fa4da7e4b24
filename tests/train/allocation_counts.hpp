// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace shard8::test {

/// What a program that links allocation_counts.cpp has allocated since its start.
struct AllocationCounts {
  static constexpr std::size_t kLarge = 4096;  ///< bytes: more than lists and names take
  std::uint64_t host = 0;                      ///< calls of operator new by this thread, but for those below
  std::uint64_t large = 0;                     ///< those of at least kLarge bytes
  /// Calls of CUDA's run-time library by this program (not by libraries, which have their own) that take or
  /// free memory of the device or pinned memory of the host; 0 in builds for hosts.
  std::uint64_t device = 0;
  /// Calls of operator new by this thread within cuDNN's execution of a plan, which no caller can spare it.
  std::uint64_t attention = 0;
};
AllocationCounts allocation_counts();

}  // namespace shard8::test
