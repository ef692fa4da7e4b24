// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace shard8::app {

/// Of this process, in bytes, as the system counts them.
struct ProcessMemory {
  std::uint64_t resident = 0;  ///< now
  std::uint64_t peak = 0;      ///< the most so far
};

/// From /proc/self/status; Error(environment) where there is none.
ProcessMemory process_memory();

/// Bytes that are taken in `after` beyond those in `before`. 0 when fewer are taken: another process may have freed
/// memory of the device between the two.
std::uint64_t memory_growth(std::uint64_t before, std::uint64_t after);

}  // namespace shard8::app
