// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/node.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <span>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "comm/agree.hpp"
#include "comm/device.hpp"
#include "comm/host_waits.hpp"
#include "comm/mpi/group.hpp"
#include "profile/processor.hpp"

namespace shard8::comm {

std::string device_node_identity() {
  static const std::string given = [] {
    const char* const id = std::getenv("NCCL_HOSTID");
    return id == nullptr ? std::string() : ' ' + std::string(id);
  }();
  return profile::node_identity() + given;
}

std::optional<int> cpu_quota(const std::string& file) {
  std::ifstream in(file);
  std::int64_t quota = 0, period = 0;
  if (!(in >> quota >> period) || quota <= 0 || period <= 0) return std::nullopt;  // "max 100000": no limit
  return static_cast<int>((quota + period - 1) / period);
}

int cores_of_cpus(std::span<const int> cpus, const std::string& root) {
  std::set<std::string> cores;
  for (const int cpu : cpus) {
    const std::string topology = root + "/cpu" + std::to_string(cpu) + "/topology/";
    std::string siblings;  // "0,64" or "0-1": all CPUs of the core, the same text for each of them
    for (const char* const name : {"core_cpus_list", "thread_siblings_list"}) {  // the second one before Linux 5.3
      std::ifstream file(topology + name);
      if (std::getline(file, siblings) && !siblings.empty()) break;
    }
    cores.insert(siblings.empty() ? "cpu " + std::to_string(cpu) : siblings);
  }
  return static_cast<int>(cores.size());
}

Node survey_node(MPI_Comm comm, HostWaits* waits, std::uint64_t group) {
  const HostWaits::Wait wait(waits, {.operation = "surveying the node"});
  Node node;
  std::array<char, MPI_MAX_PROCESSOR_NAME> host{};
  int length = 0;
  check_mpi(MPI_Get_processor_name(host.data(), &length), "MPI_Get_processor_name", "surveying the node", nullptr);
  node.host.assign(host.data(), static_cast<std::size_t>(length));

  MPI_Comm local = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &local), "MPI_Comm_split_type",
            "surveying the node", nullptr);
  check_mpi(MPI_Comm_size(local, &node.ranks), "MPI_Comm_size", "surveying the node", nullptr);
  check_mpi(MPI_Comm_rank(local, &node.rank), "MPI_Comm_rank", "surveying the node", nullptr);
  profile::CpuSet cpus = profile::affinity();
  check_mpi(
      MPI_Allreduce(MPI_IN_PLACE, cpus.words.data(), static_cast<int>(cpus.words.size()), MPI_UINT64_T, MPI_BOR, local),
      "MPI_Allreduce", "surveying the node", nullptr);
  std::vector<std::uint64_t> groups(static_cast<std::size_t>(node.ranks));
  check_mpi(MPI_Allgather(&group, 1, MPI_UINT64_T, groups.data(), 1, MPI_UINT64_T, local), "MPI_Allgather",
            "surveying the node", nullptr);
  node.group_ranks = static_cast<int>(std::count(groups.begin(), groups.end(), group));
  int cores = node.rank == 0 ? cores_of_cpus(cpus.numbers()) : 0;
  check_mpi(MPI_Bcast(&cores, 1, MPI_INT, 0, local), "MPI_Bcast", "surveying the node", nullptr);
  check_mpi(MPI_Comm_free(&local), "MPI_Comm_free", "surveying the node", nullptr);

  if (cores == 0) cores = static_cast<int>(std::thread::hardware_concurrency());
  if (const auto quota = cpu_quota()) cores = std::min(cores, *quota);
  node.cores = std::max(cores, 1);
  return node;
}

namespace {

bool all_equal(std::span<const int> values) {
  return std::all_of(values.begin(), values.end(), [&](int v) { return v == values.front(); });
}

std::string list_of(std::span<const int> values) {
  if (all_equal(values)) return fmt::format("{}", values.front());
  return fmt::format("{}", fmt::join(values, ", "));
}

std::string range_of(std::span<const int> values) {
  if (all_equal(values)) return fmt::format("{}", values.front());
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return fmt::format("{} to {}", *least, *most);
}

/// How often each number from 0 on occurs. Every number up to the largest one does.
std::vector<int> counts_of(std::span<const int> numbers) {
  std::vector<int> counts;
  for (const int n : numbers) {
    if (static_cast<std::size_t>(n) >= counts.size()) counts.resize(static_cast<std::size_t>(n) + 1);
    ++counts[static_cast<std::size_t>(n)];
  }
  return counts;
}

}  // namespace

std::string ranks_on_nodes(const Placement& placement) { return list_of(counts_of(placement.node_of)); }

std::string cores_of_nodes(const Placement& placement) { return list_of(placement.cores); }

std::string nodes_of_groups(const Placement& placement, const base::Extents& mesh, base::AxisSet axes) {
  const std::vector<int>& nodes = placement.node_of;
  SHARD8_REQUIRE(static_cast<int>(nodes.size()) == mesh.ranks(), "a placement of {} ranks, and a mesh of {}",
                 nodes.size(), mesh.ranks());
  std::vector<int> spanned;
  for (const std::vector<int>& group : base::groups_of(mesh, axes)) {
    std::set<int> of_group;
    for (const int rank : group) of_group.insert(nodes[static_cast<std::size_t>(rank)]);
    spanned.push_back(static_cast<int>(of_group.size()));
  }
  return range_of(spanned);
}

std::string ranks_on_devices(const Placement& placement) {
  return placement.device_of.empty() ? "none" : range_of(counts_of(placement.device_of));
}

namespace {

/// The smallest rank of the group with which this rank can share memory, as MPI says. Collective.
int first_rank_of_node(const Group& group) {
  constexpr const char* kPurpose = "the placement of ranks";
  const HostWaits::Wait wait(group.engine->waits, group.subject("MPI_Comm_split_type"));
  MPI_Comm local = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(group.comm, MPI_COMM_TYPE_SHARED, group.rank, MPI_INFO_NULL, &local),
            "MPI_Comm_split_type", kPurpose, &group);
  int first = group.rank;
  check_mpi(MPI_Bcast(&first, 1, MPI_INT, 0, local), "MPI_Bcast", kPurpose, &group);
  check_mpi(MPI_Comm_free(&local), "MPI_Comm_free", kPurpose, &group);
  return first;
}

/// The names as numbers, counted from 0 in the order in which names first occur.
std::vector<int> numbered(const std::vector<std::string>& names) {
  std::map<std::string, int> known;
  std::vector<int> numbers;
  for (const std::string& name : names)
    numbers.push_back(known.emplace(name, static_cast<int>(known.size())).first->second);
  return numbers;
}

}  // namespace

Placement Communicator::placement() const {
  const Node node = survey_node(group_->comm, waits());
  const int first = first_rank_of_node(*group_);
  const Device* const on_device = device();
  std::string name, device_name;
  agree(*this, [&] {
    name = fmt::format("{}", first);
    if (on_device == nullptr) return;
    name += ' ' + device_node_identity();
    device_name = on_device->identity();
  });
  Placement placement;
  placement.node_of = numbered(all_gather(name));
  const std::array<double, 1> cores{static_cast<double>(node.cores)};
  const std::vector<double> all_cores = all_gather(cores);
  for (std::size_t rank = 0; rank < all_cores.size(); ++rank)
    if (placement.node_of[rank] == placement.nodes()) placement.cores.push_back(static_cast<int>(all_cores[rank]));
  if (on_device != nullptr) placement.device_of = numbered(all_gather(device_name));
  return placement;
}

}  // namespace shard8::comm
