// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shard8::deck {

/// Steps by number, from 0, first and last included.
struct StepRange {
  std::int64_t first = 0, last = 0;
  bool operator==(const StepRange&) const = default;
};

/// The most steps that output.trace_steps may name. Chosen: spans are kept in memory until the end of a run.
inline constexpr std::int64_t kMostTracedSteps = 100;
/// Steps that are traced where output.trace_steps is empty: the first ones that figures count.
inline constexpr std::int64_t kDefaultTracedSteps = 3;

/// Parses output.trace_steps: numbers and ranges, separated by commas, ascending: "3", "3:5", "3,10:12". Returns
/// nothing, with the reason in `problem`, if the text is something else or names more than kMostTracedSteps steps. The
/// empty text is no step.
std::optional<std::vector<StepRange>> parse_trace_steps(std::string_view text, std::string& problem);

}  // namespace shard8::deck
