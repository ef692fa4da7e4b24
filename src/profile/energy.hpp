// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "profile/energy_counter.hpp"
#include "profile/energy_meter.hpp"
#include "profile/spread.hpp"

namespace shard8::profile {

/// Where a rank runs, for counters that ranks share.
struct EnergyPlace {
  int rank = 0;
  std::string node{};  ///< identifies the node: ranks with the same text are on one
  std::string host{};  ///< the node's name
};

/// The counters of a job, each once. On rank 0; empty on others.
struct EnergyDirectory {
  struct Counter {
    EnergyKind kind = EnergyKind::package;
    std::string name{}, node{}, host{};
    int reader = 0;            ///< the lowest rank that can read it
    std::vector<int> ranks{};  ///< the ranks that use a device, or all ranks of a processor's node
  };
  struct Missing {
    EnergyKind kind = EnergyKind::package;
    std::string host{}, why{};
  };
  std::vector<Counter> counters{};  ///< in the order of their readers
  std::vector<Missing> missing{};   ///< what no rank of a node can read
  /// Kinds that were read wherever the job runs, so that their joules are those of the job. The same on all ranks.
  std::vector<EnergyKind> complete{};
};

/// Agrees which rank reads which counter: those that remain in `mine` are for this rank. Collective.
EnergyDirectory share_counters(EnergySources& mine, const EnergyPlace& place, const Gather& gather);

/// What a rank counted, for the report.
struct EnergyCounts {
  EnergyDirectory directory{};           ///< rank 0 has it
  std::vector<CountedEnergy> counted{};  ///< by this rank
  double thread_cpu_s = 0;               ///< of its sampling
};

/// The energy of a job over its measured steps. On rank 0; empty on others.
struct EnergyFigures {
  struct Row : CountedEnergy {
    std::string host{}, node{};
    std::vector<int> ranks{};
  };
  struct Node {
    std::string host{};
    double joules = 0, watts = 0;  ///< of the kinds in `complete`
  };
  std::vector<Row> rows{};  ///< each counter
  std::vector<Node> nodes{};
  std::vector<EnergyDirectory::Missing> missing{};
  std::vector<EnergyKind> complete{};          ///< kinds that were read everywhere and to the end; the sums are of them
  std::array<double, kEnergyKinds> by_kind{};  ///< joules
  double joules = 0, seconds = 0;              ///< seconds: of the counter that was read for longest
  double run_joules = 0, run_seconds = 0;      ///< from the begin of the run on, start-up included
  std::int64_t steps = 0;
  double tokens = 0;          ///< of these steps; 0: nothing was trained
  double sampling_share = 0;  ///< CPU time of the thread that samples, as share of a core; of the rank with the most

  bool known() const { return !complete.empty() && seconds > 0; }
  double watts() const { return seconds > 0 ? joules / seconds : 0; }
  /// What was not read, on which host, and why; empty: every counter was read to the end.
  std::string missing_text() const;
};

/// Collective.
EnergyFigures energy_over_ranks(const EnergyCounts& mine, std::int64_t steps, double tokens, const Gather& gather);

/// The lines of the report.
std::string to_text(const EnergyFigures& figures);

/// The objects "energy" and "energy_missing" of summary.json, as the members of a JSON object.
std::string to_json(const EnergyFigures& figures);

}  // namespace shard8::profile
