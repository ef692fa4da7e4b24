// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstdio>
#include <vector>

#include "app/commands.hpp"
#include "base/error.hpp"
#include "profile/compare/comparison.hpp"

namespace shard8::app {

int compare_command(const CompareArguments& arguments) {
  profile::CompareLimits limits{.percent = arguments.percent};
  if (arguments.loss >= 0) limits.loss = arguments.loss;
  std::vector<profile::RecordedRun> runs;
  for (const std::string& path : arguments.paths) runs.push_back(profile::read_run(path));
  std::vector<profile::Comparison> comparisons;
  bool exceeded = false;
  for (std::size_t i = 1; i < runs.size(); ++i) {
    comparisons.push_back(profile::compare_runs(runs[0], runs[i], limits));
    exceeded = exceeded || !comparisons.back().exceeded.empty();
    if (!arguments.json) fmt::print("{}{}", i > 1 ? "\n" : "", profile::to_text(comparisons.back(), limits));
  }
  if (arguments.json) fmt::print("{}\n", profile::to_json(comparisons, limits));
  return base::to_int(exceeded ? base::ExitCode::verification : base::ExitCode::ok);
}

}  // namespace shard8::app
