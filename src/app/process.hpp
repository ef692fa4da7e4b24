// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "comm/node.hpp"

// What this process was given: terminal, threads, memory, environment.

namespace shard8::app {

/// Whether rank 0 prints to a terminal. A launcher puts a pipe in between, so scripts/run sets SHARD8_TERMINAL.
bool on_terminal();

/// The most threads of a rank: Kokkos keeps those of OpenMP in a table of so many entries, and does not look at its
/// end.
inline constexpr int kMostThreads = 512;

/// Threads of a rank: threads_from_environment(), or without it the node's cores divided by its ranks, at least 1 and
/// at most kMostThreads and what OpenMP lets a process have. Errors are those of threads_from_environment().
int choose_threads(const comm::Node& node);

/// Error(environment), with both numbers, unless every pool of threads that computes for this rank has `threads` of
/// them: OpenMP, the BLAS, and Kokkos, which has `kokkos` (1: it may be one without threads). A BLAS that finds fewer
/// threads than it has shared a product among waits for ever.
void require_pools(int threads, int kokkos);

/// Error(environment) if this process cannot have so many threads. Starts no region of OpenMP, which would end the
/// process then.
void require_threads(int threads);

/// OMP_NUM_THREADS, of a list its first number; 0 if the variable is not set or empty. Error(environment) when that is
/// not a positive number, and that of require_threads().
int threads_from_environment();

/// Bytes of host memory that this process has, as the system counts them (resident set).
struct ProcessMemory {
  std::uint64_t resident = 0;  ///< now
  std::uint64_t peak = 0;      ///< the most so far
};

/// Reads a file such as /proc/meminfo or /proc/self/status, which has lines "name: number kB". Returns the number of
/// bytes for each name of such a line; lines of other forms are ignored. Returns nothing if the file cannot be read.
std::map<std::string, std::uint64_t, std::less<>> kilobytes_in(const std::string& file);

/// Reads /proc/self/status. Error(environment) if the file is missing or does not have the numbers.
ProcessMemory process_memory();

/// after − before, the growth between two counts of bytes; 0 if `after` is smaller: another process may have freed
/// memory of the device in between.
std::uint64_t memory_growth(std::uint64_t before, std::uint64_t after);

/// The variables of this process's environment that change what a run does or how fast it is, chosen by the beginnings
/// of their names: name and value, ordered by name, without those that may hold secrets (profile::variables_with).
std::vector<std::pair<std::string, std::string>> relevant_environment();

}  // namespace shard8::app
