// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "machine/times.hpp"

namespace shard8::machine {

/// Seconds at `bytes` of rows (bytes, seconds) in ascending order of bytes: linear between two of them. Above the
/// largest, seconds grow as between the last two rows, but never slower than half in proportion; below the smallest
/// they shrink as between the first two, and never below half of the smallest time.
inline Estimate along(const std::vector<std::pair<double, double>>& rows, double bytes) {
  const auto above = std::lower_bound(rows.begin(), rows.end(), std::pair(bytes, 0.0));
  if (above != rows.end() && above->first == bytes) return {above->second, Known::entry, 1};
  const auto line = [bytes](const auto& a, const auto& b) {
    return a.second + (b.second - a.second) * (bytes - a.first) / (b.first - a.first);
  };
  if (above == rows.begin()) {
    const double least = 0.5 * rows.front().second;
    const double seconds = rows.size() > 1 ? line(rows[0], rows[1]) : rows.front().second * bytes / rows.front().first;
    return {std::max(least, seconds), Known::outside, rows.front().first / std::max(bytes, 1.0)};
  }
  if (above != rows.end()) return {line(*(above - 1), *above), Known::between, 1};
  const auto& last = rows.back();
  const double in_proportion = last.second * bytes / last.first;
  const double seconds = rows.size() > 1
                             ? std::clamp(line(rows[rows.size() - 2], last), 0.5 * in_proportion, in_proportion)
                             : in_proportion;
  return {seconds, Known::outside, bytes / last.first};
}

}  // namespace shard8::machine
