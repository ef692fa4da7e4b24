// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "profile/metrics.hpp"

namespace shard8::profile {

/// What all legs of a training have done: what its metrics.jsonl holds, steps that were trained again counted once.
struct Totals {
  std::int64_t legs = 0;           ///< processes that trained, those that were killed included
  std::int64_t first_step = 0;     ///< number of the training's first step
  std::int64_t steps = 0;          ///< steps that are recorded
  std::int64_t trained_again = 0;  ///< steps that a later leg trained once more, since no checkpoint had them
  std::int64_t tokens = 0;         ///< of the recorded steps
  double step_s = 0;               ///< seconds of the recorded steps, on rank 0

  void add(const RecordedStep& step) {
    ++steps;
    tokens += step.tokens;
    step_s += step.step_s;
  }
  double tokens_per_s() const { return step_s > 0 ? static_cast<double>(tokens) / step_s : 0; }
};

/// The line of the report on all legs; empty for the first leg.
std::string to_text(const Totals& totals);

}  // namespace shard8::profile
