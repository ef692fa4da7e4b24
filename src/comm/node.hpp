// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/axes.hpp"
#include "profile/processor.hpp"

namespace shard8::comm {

class HostWaits;

/// The node that this rank runs on.
struct Node {
  std::string host;
  int ranks = 1;  ///< ranks of `comm` on this node
  int rank = 0;   ///< this rank among them
  /// How many of these ranks called survey_node() with the same group as this rank.
  int group_ranks = 1;
  /// Cores that these ranks together may use, by their affinity masks and the cgroup's quota. Hyperthreads of a core
  /// are one core: two threads that compute there are each half as fast.
  int cores = 1;
};

/// Collective over `comm`. Ranks of one node get the same answer, but for group_ranks. `waits`, which may be null, is
/// told of the wait. `group` is any number.
Node survey_node(MPI_Comm comm, HostWaits* waits = nullptr, std::uint64_t group = 0);

/// Two processes with the same identity are on one node.
using profile::node_identity;

/// As node_identity(), for what devices exchange: ranks with different values of the environment variable NCCL_HOSTID
/// are on different nodes, as they are for NCCL. The variable is read at the first call.
std::string device_node_identity();

/// The CPU time that the cgroup (version 2) allows, in cores, rounded up. Nothing without a limit.
std::optional<int> cpu_quota(const std::string& file = "/sys/fs/cgroup/cpu.max");

/// How many cores the CPUs of this process's kernel with these numbers are: hyperthreads count once. Where the kernel
/// does not tell which CPUs are a core, each CPU counts.
int cores_of_cpus(std::span<const int> cpus, const std::string& root = "/sys/devices/system/cpu");

/// What Communicator::parts_transport says of parts that go through parts_memory.
inline constexpr std::string_view kSharedMemory = "memory that ranks share";

/// Where the ranks of a group run. A Placement is the same on every rank. See Communicator::placement.
struct Placement {
  std::vector<int> node_of;    ///< of each rank the number of its node; nodes are counted by their first ranks, from 0
  std::vector<int> cores;      ///< of each node, the cores that its ranks together may use
  std::vector<int> device_of;  ///< of each rank the number of its device, counted as nodes are; empty on hosts

  int nodes() const { return static_cast<int>(cores.size()); }
};

/// Ranks on each node, in the order of the nodes: "2", or "2, 2, 1" where nodes have different numbers of ranks.
std::string ranks_on_nodes(const Placement& placement);
/// Cores of each node: "8", or "8, 8, 4".
std::string cores_of_nodes(const Placement& placement);
/// On how many nodes the ranks of a group of `axes` run, as text: "1", or "1 to 2" if some groups run on one node and
/// others on two. `placement` must be that of all ranks of the mesh.
std::string nodes_of_groups(const Placement& placement, const base::Extents& mesh, base::AxisSet axes);
/// The number of ranks that share a device: "1", or "1 to 2" where devices differ; "none" on hosts.
std::string ranks_on_devices(const Placement& placement);

}  // namespace shard8::comm
