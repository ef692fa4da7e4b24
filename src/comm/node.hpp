// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <optional>
#include <string>

namespace shard8::comm {

class HostWaits;

/// The node that this rank runs on.
struct Node {
  std::string host;
  int ranks = 1;  ///< of `comm` on this node
  int rank = 0;   ///< this one among them
  int cores = 1;  ///< that these ranks may run on together: affinity masks, and the cgroup's quota
};

/// Collective over `comm`; ranks of one node get the same answer. `waits`, which may be null, is told of the wait.
Node survey_node(MPI_Comm comm, HostWaits* waits = nullptr);

/// Cores' worth of CPU time that the cgroup (version 2) allows, rounded up; nothing without a limit.
std::optional<int> cpu_quota(const std::string& file = "/sys/fs/cgroup/cpu.max");

}  // namespace shard8::comm
