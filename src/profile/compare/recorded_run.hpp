// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "profile/compare/step_mean.hpp"

namespace shard8::profile {

/// What the files of a finished run say, for comparisons. Times are in seconds.
struct RecordedRun {
  using Texts = std::vector<std::pair<std::string, std::string>>;
  struct Time {
    std::string name;  ///< "forward" or "forward gemm"
    double mean_s = 0;
    std::optional<StepMean> known{};  ///< mean_s and its error; nothing if the error is not known
  };
  /// All collectives of one operation, group and dtype, in a step.
  struct Traffic {
    std::string name;  ///< "all_gather shard(2) fp32"
    double bytes = 0, calls = 0, total_s = 0, exposed_s = 0;
  };
  struct Casts {
    std::string name;
    double elements = 0, saturated = 0, flushed = 0, scale_change = 0;
  };

  std::string name;  ///< the path that was given
  bool has_summary = false;
  Texts version{}, deck{}, run{}, environment{};
  std::string date{};  ///< empty if the file has none
  std::string hosts{};
  std::int64_t ranks = 0;            ///< 0: not known
  std::int64_t tokens_per_step = 0;  ///< 0: not known
  double p50_s = 0, mean_s = 0;      ///< of the measured steps; 0: none
  double tokens_per_s = 0;
  std::string
      busy{};  ///< how ranks were without a core for longer than is good; empty: they were not, or nobody looked
  std::optional<StepMean> known{};  ///< mean_s and its error; nothing for fewer than 4 measured steps
  std::vector<Time> phases{}, exchanges{};
  std::vector<Traffic> collectives{};
  std::vector<std::pair<std::string, double>> memory{};  ///< bytes by kind
  std::vector<Casts> casts{};
  std::map<std::int64_t, double> loss{};  ///< by step; NaN where the run had no finite loss
};

/// Reads a run. `path` is an output folder, its summary.json or its metrics.jsonl. The other files are found beside
/// summary.json, by the names in its deck; one that is missing is left out. A metrics.jsonl alone gives losses and step
/// times. Error(deck) with the remedy if there is no such file, it is half-written, or it has another schema version.
RecordedRun read_run(const std::filesystem::path& path);

}  // namespace shard8::profile
