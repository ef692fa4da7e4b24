// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "train/algorithms.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "comm/agree.hpp"
#include "deck/config.hpp"
#include "io/durable_file.hpp"

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

}  // namespace shard8::train
