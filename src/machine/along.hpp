// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "machine/times.hpp"

namespace shard8::machine {

/// Seconds at `bytes` of rows (bytes, seconds) in ascending order of bytes: those of a row of so many bytes, else
/// linear between rows. Rows whose bytes differ by less than a tenth are one, so that no difference of two measured
/// times is stretched. Outside of the rows seconds grow and shrink as between the two nearest ones, but never faster
/// than in proportion to the bytes. Above, they grow by half of that at least; below, they are at least half of the
/// first.
inline Estimate along(const std::vector<std::pair<double, double>>& rows, double bytes) {
  const auto exact = std::lower_bound(rows.begin(), rows.end(), std::pair(bytes, 0.0));
  if (exact != rows.end() && exact->first == bytes) return {exact->second, Known::entry, 1};
  std::vector<std::pair<double, double>> joined;  // sums, then means
  std::vector<double> counts;
  double first = 0;  // bytes of the first row that was joined
  for (const auto& [b, s] : rows) {
    if (joined.empty() || b > 1.1 * first) {
      joined.emplace_back(b, s);
      counts.push_back(1);
      first = b;
    } else {
      joined.back().first += b;
      joined.back().second += s;
      counts.back() += 1;
    }
  }
  for (std::size_t i = 0; i < joined.size(); ++i) {
    joined[i].first /= counts[i];
    joined[i].second /= counts[i];
  }
  const auto line = [bytes](const auto& a, const auto& b) {
    return a.second + (b.second - a.second) * (bytes - a.first) / (b.first - a.first);
  };
  const auto above = std::lower_bound(joined.begin(), joined.end(), std::pair(bytes, 0.0));
  const auto& low = joined.front();
  const auto& high = joined.back();
  if (above == joined.begin()) {
    const double in_proportion = low.second * bytes / low.first;
    const double seconds =
        joined.size() > 1 ? std::clamp(line(joined[0], joined[1]), in_proportion, low.second) : in_proportion;
    return {std::max(0.5 * low.second, seconds), Known::outside,
            std::max(1.0, rows.front().first / std::max(bytes, 1.0))};
  }
  if (above != joined.end()) return {line(*(above - 1), *above), Known::between, 1};
  const double in_proportion = high.second * bytes / high.first;
  const double seconds = joined.size() > 1
                             ? std::clamp(line(joined[joined.size() - 2], high), 0.5 * in_proportion, in_proportion)
                             : in_proportion;
  return {seconds, Known::outside, std::max(1.0, bytes / rows.back().first)};
}

}  // namespace shard8::machine
