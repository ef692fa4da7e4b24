// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/cpus.hpp"

namespace shard8::comm {

class HostWaits;

/// The node that this rank runs on.
struct Node {
  std::string host;
  int ranks = 1;  ///< ranks of `comm` on this node
  int rank = 0;   ///< this rank among them
  /// Of these ranks, those that survey_node() was called with the same group as this one.
  int group_ranks = 1;
  /// Cores that these ranks together may use, by their affinity masks and the cgroup's quota. Hyperthreads of a core
  /// are one core: two threads that compute there are each half as fast.
  int cores = 1;
};

/// Collective over `comm`. Ranks of one node get the same answer, but for group_ranks. `waits`, which may be null, is
/// told of the wait. `group` is any number.
Node survey_node(MPI_Comm comm, HostWaits* waits = nullptr, std::uint64_t group = 0);

/// Two processes with the same identity are on one node.
using base::node_identity;

/// The same for what devices exchange: ranks with different values of the environment variable NCCL_HOSTID are on
/// different nodes, as they are for NCCL. The variable is read at the first call.
std::string device_node_identity();

/// The CPU time that the cgroup (version 2) allows, in cores, rounded up. Nothing without a limit.
std::optional<int> cpu_quota(const std::string& file = "/sys/fs/cgroup/cpu.max");

/// How many cores the CPUs of this process's kernel with these numbers are: hyperthreads count once. Where the kernel
/// does not tell which CPUs are a core, each CPU counts.
int cores_of_cpus(std::span<const int> cpus, const std::string& root = "/sys/devices/system/cpu");

}  // namespace shard8::comm
