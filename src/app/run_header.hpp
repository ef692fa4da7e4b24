// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "base/log.hpp"
#include "comm/communicator.hpp"
#include "comm/node.hpp"
#include "train/assembly.hpp"
#include "train/checkpoints.hpp"
#include "train/overlap/decision.hpp"

namespace shard8::app {

/// What the header of a run tells.
struct RunHeader {
  const comm::Communicator& world;
  const comm::Node& node;
  const train::Assembly& assembly;
  const train::OverlapDecision& overlap;
  const train::RunDescription& run;
  const std::optional<train::RestartPoint>& point;  ///< the checkpoint from which the run goes on
  std::optional<double> entropy;                    ///< of the data, in nats
  std::int64_t steps = 0;                           ///< run.steps
};

/// Prints the lines before the first step, and a warning where ranks share cores.
void print_header(const base::Logger& logger, const RunHeader& header);

}  // namespace shard8::app
