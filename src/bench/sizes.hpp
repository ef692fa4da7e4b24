// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "base/error.hpp"

namespace shard8::bench {

/// The sizes least, least * factor, ... that are at most `most`. Error(failed) unless 0 < least <= most and factor > 1:
/// a benchmark of no sizes is none.
inline std::vector<std::uint64_t> sizes_between(std::uint64_t least, std::uint64_t most, int factor) {
  SHARD8_REQUIRE(least > 0 && least <= most && factor > 1, "sizes from {} to {} by a factor of {}", least, most,
                 factor);
  const auto by = static_cast<std::uint64_t>(factor);
  std::vector<std::uint64_t> sizes{least};
  while (sizes.back() <= most / by) sizes.push_back(sizes.back() * by);  // a product beyond 2^64 would begin again
  return sizes;
}

}  // namespace shard8::bench
