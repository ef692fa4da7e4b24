// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/placement.hpp"

#include <fmt/format.h>

#include <array>
#include <map>

#include "comm/agree.hpp"
#include "comm/device.hpp"
#include "comm/mpi/group.hpp"
#include "comm/node.hpp"

namespace shard8::comm {
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
