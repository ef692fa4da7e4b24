// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/axes.hpp"

namespace shard8::comm {

/// What Communicator::parts_transport says of parts that go through parts_memory.
inline constexpr std::string_view kSharedMemory = "memory that ranks share";

/// Where the ranks of a group run. The same on every rank. See Communicator::placement.
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
