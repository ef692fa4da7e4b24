// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "deck/trace_steps.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace shard8::deck {
namespace {

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(' ');
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

std::optional<std::int64_t> number(std::string_view text) {
  text = trimmed(text);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size() && text.front() != '-';
  if (!whole || value > 2147483647) return std::nullopt;
  return value;
}

}  // namespace

std::optional<std::vector<StepRange>> parse_trace_steps(std::string_view text, std::string& problem) {
  std::vector<StepRange> ranges;
  if (trimmed(text).empty()) return ranges;
  std::int64_t steps = 0;
  for (std::size_t from = 0; from <= text.size();) {
    const std::size_t comma = std::min(text.find(',', from), text.size());
    const std::string_view entry = text.substr(from, comma - from);
    from = comma + 1;
    const std::size_t colon = entry.find(':');
    const auto first = number(entry.substr(0, colon));
    const auto last = colon == std::string_view::npos ? first : number(entry.substr(colon + 1));
    if (!first || !last) {
      problem = fmt::format("'{}' is neither a step nor a range of steps", trimmed(entry));
      return std::nullopt;
    }
    if (*last < *first) {
      problem = fmt::format("the range {}:{} is empty", *first, *last);
      return std::nullopt;
    }
    if (!ranges.empty() && *first <= ranges.back().last) {
      problem = fmt::format("step {} comes after step {}", *first, ranges.back().last);
      return std::nullopt;
    }
    ranges.push_back({*first, *last});
    steps += *last - *first + 1;
  }
  if (steps > kMostTracedSteps) {
    problem = fmt::format("{} steps are too many, at most {} can be traced", steps, kMostTracedSteps);
    return std::nullopt;
  }
  return ranges;
}

}  // namespace shard8::deck
