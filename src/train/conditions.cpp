// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "train/conditions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <vector>

#include "comm/agree.hpp"
#include "comm/launch.hpp"
#include "comm/node.hpp"
#include "deck/overlap.hpp"
#include "kernels/libraries.hpp"
#include "train/device.hpp"
#include "train/state.hpp"

namespace shard8::train {

using profile::Conditions;

namespace {

/// What this rank alone depends on.
Conditions local_conditions(const comm::Communicator& world, int threads) {
  const auto or_none = [](const std::string& text) { return text.empty() ? std::string("none") : text; };
  Conditions conditions{{std::string(condition::kMachine), machine_name()}};
  const auto versions = gpu_versions(world.device());
  const auto version_of = [&](std::string_view name) {
    const auto found = std::find_if(versions.begin(), versions.end(), [&](const auto& v) { return v.first == name; });
    return or_none(found == versions.end() ? "" : found->second);
  };
  conditions.emplace_back(condition::kCuda, version_of("cuda"));
  conditions.emplace_back(condition::kDriver, version_of("driver"));
  conditions.emplace_back(condition::kCublas, version_of("cublaslt"));
  conditions.emplace_back("cuDNN", version_of("cudnn"));
  conditions.emplace_back("NCCL", version_of("nccl"));
  conditions.emplace_back("BLAS", device_name().empty() ? kernels::blas_description() : "none");
  conditions.emplace_back("MPI", comm::library_version());
  conditions.emplace_back("threads a rank", fmt::format("{}", threads));
  conditions.emplace_back("waiting", comm::name_of(world.waiting()));
  return conditions;
}

/// The different values of the ranks, in the order in which they first occur: "A", or "A / B". Collective.
std::string of_all_ranks(const comm::Communicator& world, const std::string& mine) {
  std::vector<std::string> different;
  for (const std::string& value : world.all_gather(mine))
    if (std::find(different.begin(), different.end(), value) == different.end()) different.push_back(value);
  std::string all = different.front();
  for (std::size_t i = 1; i < different.size(); ++i) all += " / " + different[i];
  return all;
}

}  // namespace

Conditions conditions_of(const comm::Mesh& mesh, const Setup& setup, const std::string& program) {
  const comm::Communicator& world = mesh.world;
  Conditions local;
  comm::agree(world, [&] { local = local_conditions(world, setup.threads); });
  Conditions conditions{{std::string(condition::kProgram), program}};
  for (const auto& [name, mine] : local) conditions.emplace_back(name, of_all_ranks(world, mine));
  const comm::Placement placement = world.placement();
  conditions.emplace_back("nodes", fmt::format("{}", placement.nodes()));
  conditions.emplace_back("ranks a node", ranks_on_nodes(placement));
  conditions.emplace_back("cores a node", cores_of_nodes(placement));
  conditions.emplace_back("nodes of a tensor group", nodes_of_groups(placement, setup.mesh, base::AxisSet::tensor));
  if (deck::pushes_rows(setup.config))
    conditions.emplace_back("nodes of an expert group", nodes_of_groups(placement, setup.mesh, base::AxisSet::expert));
  conditions.emplace_back(condition::kRanksOnDevices, ranks_on_devices(placement));
  const UserBuffers buffers = user_buffers(setup);
  conditions.emplace_back(
      condition::kTransport,
      of_all_ranks(world, mesh.group(base::AxisSet::tensor).parts_transport(buffers.gather, buffers.scatter)));
  return conditions;
}

std::string machine_name() {
  if (std::string device = device_name(); !device.empty()) return device;
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown processor";
}

}  // namespace shard8::train
