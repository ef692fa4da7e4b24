// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "comm/node.hpp"

/// What this process was given: threads, memory, environment.

namespace shard8::app {

/// Threads of a rank: OMP_NUM_THREADS, or the node's cores divided by its ranks, at least 1. Error(environment) when
/// the variable is no positive number.
int choose_threads(const comm::Node& node);

/// OMP_NUM_THREADS, or 0 when it is not set. Error(environment) when it is no positive number.
int threads_from_environment();

/// Bytes of host memory that this process has, as the system counts them.
struct ProcessMemory {
  std::uint64_t resident = 0;  ///< now
  std::uint64_t peak = 0;      ///< the most so far
};

/// Reads /proc/self/status. Error(environment) where there is none.
ProcessMemory process_memory();

/// Bytes that are taken in `after` beyond those in `before`. 0 when fewer are taken: another process may have freed
/// memory of the device between the two.
std::uint64_t memory_growth(std::uint64_t before, std::uint64_t after);

/// The variables of this process's environment that change what a run does or how fast it is: name and value, ordered
/// by name, without those that may hold secrets.
std::vector<std::pair<std::string, std::string>> relevant_environment();

}  // namespace shard8::app
