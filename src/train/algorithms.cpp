// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "train/algorithms.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "comm/agree.hpp"
#include "comm/environment.hpp"
#include "comm/node.hpp"
#include "deck/config.hpp"
#include "deck/overlap.hpp"
#include "io/file.hpp"
#include "kernels/libraries.hpp"
#include "train/device.hpp"
#include "train/setup.hpp"
#include "train/state.hpp"

namespace shard8::train {

using Json = nlohmann::ordered_json;

namespace {

constexpr std::string_view kCheckpoint = "a checkpoint", kTimed = "timed";

/// Throws base::JsonProblem for what is no payload.
std::string algorithms_of_payload(const std::string& payload) {
  std::string algorithms;
  const Json json = base::parse_json<Json>(payload);
  base::in_json(json, [&] {
    for (const std::string& line : base::json_value<std::vector<std::string>>(json, "algorithms"))
      algorithms += line + '\n';
  });
  return algorithms;
}

}  // namespace

std::string text_of_algorithms(const std::string& algorithms, const profile::Conditions& conditions,
                               bool from_checkpoint) {
  Json lines = Json::array();
  for (std::size_t at = 0; at < algorithms.size();) {
    const std::size_t end = std::min(algorithms.find('\n', at), algorithms.size());
    lines.push_back(algorithms.substr(at, end - at));
    at = end + 1;
  }
  const Json payload{{"from", from_checkpoint ? kCheckpoint : kTimed}, {"algorithms", std::move(lines)}};
  return to_text({conditions, payload.dump()}, kAlgorithmsKind);
}

std::string algorithms_of_file_text(const std::string& text, const profile::Conditions& now, std::string& reason) {
  if (text.starts_with("cublaslt ")) {
    reason = fmt::format("its format is 1, and this program reads {}", kAlgorithmsKind.format);
    return {};
  }
  const auto kept = profile::measurement_of_text(text, kAlgorithmsKind, reason);
  if (!kept || !fits(kept->conditions, now, kAlgorithmsKind, reason)) return {};
  try {
    return algorithms_of_payload(kept->payload);
  } catch (const base::JsonProblem& e) {
    reason = fmt::format("it has no algorithms: {}", e.what());
  }
  return {};
}

AlgorithmsFile::AlgorithmsFile(const std::filesystem::path& folder, const comm::Communicator& world,
                               profile::Conditions conditions)
    : folder_(folder),
      path_(folder / deck::OutputConfig::kAlgorithms),
      world_(world),
      conditions_(std::move(conditions)) {}

/// Whether all ranks' libraries took the algorithms; if not, why the first rank's did not. Collective.
bool AlgorithmsFile::give(kernels::Libraries& libraries, const std::string& algorithms, std::string& reason) {
  std::string mine;
  comm::agree(world_, [&] {
    try {
      if (!libraries.adopt(algorithms)) mine = "they are for another kind of device or version of cuBLASLt or CUTLASS";
    } catch (const base::Error& e) {
      mine = e.what();
    }
  });
  for (const std::string& of_rank : world_.all_gather(mine)) {
    if (of_rank.empty()) continue;
    reason = of_rank;
    return false;
  }
  return true;
}

bool AlgorithmsFile::adopt(kernels::Libraries& libraries, const std::string& algorithms) {
  if (algorithms.empty()) return false;
  std::string reason;
  from_checkpoint_ = give(libraries, algorithms, reason);
  if (!from_checkpoint_)
    remarks_.push_back(fmt::format("the algorithms of the checkpoint do not fit: {}; chosen anew", reason));
  return from_checkpoint_;
}

void AlgorithmsFile::load(kernels::Libraries& libraries) {
  std::string algorithms, reason;
  comm::agree_on_root(world_, 0, [&] {
    std::error_code error;
    if (std::filesystem::is_regular_file(path_, error))
      algorithms = algorithms_of_file_text(io::text_of(path_.string()), conditions_, reason);
  });
  world_.broadcast(algorithms, 0);
  world_.broadcast(reason, 0);
  if (reason.empty() && (algorithms.empty() || give(libraries, algorithms, reason))) return;
  remarks_.push_back(fmt::format("the algorithms in {} do not fit: {}; chosen anew", path_.string(), reason));
}

void AlgorithmsFile::store(kernels::Libraries& libraries) {
  std::string chosen = libraries.algorithms();
  world_.broadcast(chosen, 0);
  comm::agree(world_, [&] {
    SHARD8_REQUIRE(libraries.adopt(chosen), "rank 0's algorithms are of another kind of device or library");
  });
  comm::agree_on_root(world_, 0, [&] {
    std::string reason;
    if (algorithms_of_file_text(io::text_of(path_.string()), conditions_, reason) == chosen) return;
    std::error_code error;
    std::filesystem::create_directories(folder_, error);
    if (error)
      base::fail(base::ExitCode::environment,
                 "cannot make folder '{}': {}; set output.dir to a folder that can be made", folder_.string(),
                 error.message());
    io::write_durably(path_.string(), text_of_algorithms(chosen, conditions_, from_checkpoint_));
  });
}

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
