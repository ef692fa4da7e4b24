// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/node.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <set>
#include <thread>
#include <vector>

#include "base/cpus.hpp"
#include "comm/host_waits.hpp"
#include "comm/mpi/group.hpp"

namespace shard8::comm {
std::string device_node_identity() {
  static const std::string given = [] {
    const char* const id = std::getenv("NCCL_HOSTID");
    return id == nullptr ? std::string() : ' ' + std::string(id);
  }();
  return base::node_identity() + given;
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
  base::CpuSet cpus = base::affinity();
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

}  // namespace shard8::comm
