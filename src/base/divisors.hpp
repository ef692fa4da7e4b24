// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace shard8::base {

/// The divisors of `n` >= 1 in ascending order, found in √n steps.
inline std::vector<std::int64_t> divisors_of(std::int64_t n) {
  std::vector<std::int64_t> low, high;
  for (std::int64_t d = 1; d * d <= n; ++d) {
    if (n % d != 0) continue;
    low.push_back(d);
    if (d * d != n) high.insert(high.begin(), n / d);
  }
  low.insert(low.end(), high.begin(), high.end());
  return low;
}

}  // namespace shard8::base
