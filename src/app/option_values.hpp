// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>
#include <string>

namespace shard8::app {

/// Why `text` is not a finite number from `low` to `high`; empty if it is one. An infinite `high` is no bound.
std::string problem_of_number(const std::string& text, double low, double high);
/// Why `text` is not a whole number from `low` to `high`; empty if it is one.
std::string problem_of_whole(const std::string& text, std::int64_t low, std::int64_t high);

/// Checks of the values of options. CLI::Range and CLI::NonNegativeNumber let NaN pass: each of its comparisons is
/// false.
CLI::Validator number_from(double low, double high = std::numeric_limits<double>::infinity());
CLI::Validator whole_from(std::int64_t low, std::int64_t high = std::numeric_limits<std::int32_t>::max());

/// An option's value that may not be empty: a variable that was not set in a job script.
CLI::Validator not_empty();

}  // namespace shard8::app
