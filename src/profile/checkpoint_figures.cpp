// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "profile/checkpoint_figures.hpp"

#include <algorithm>
#include <array>
#include <limits>

namespace shard8::profile {

CheckpointFigures checkpoints_over_ranks(const CheckpointCounts& mine, double steps_s, const Gather& gather) {
  CheckpointFigures f;
  f.written = mine.written;
  f.failed = mine.failed;
  f.waited = mine.waited;
  f.bytes = mine.bytes;
  f.durable_longest_s = mine.longest_s;
  if (mine.written > 0) f.durable_mean_s = mine.durable_s / static_cast<double>(mine.written);
  if (mine.durable_s > 0) f.bytes_per_s = static_cast<double>(mine.bytes) / mine.durable_s;
  // A rank that writes nothing, because another one holds the same boxes, is no slow rank.
  constexpr double kNothing = std::numeric_limits<double>::infinity();
  const double own = mine.own_bytes > 0 && mine.own_s > 0 ? static_cast<double>(mine.own_bytes) / mine.own_s : kNothing;
  for_each_gathered(std::array{steps_s + mine.after_last_s, own}, gather,
                    [&](std::size_t i, std::span<const double> by_rank) {
                      if (i == 0) {
                        const Spread held_up = spread_of(by_rank);
                        f.held_up_s = held_up.max;
                        f.worst_rank = held_up.worst_rank;
                        return;
                      }
                      const auto slowest = std::min_element(by_rank.begin(), by_rank.end());
                      if (*slowest == kNothing) return;
                      f.slowest_bytes_per_s = *slowest;
                      f.slowest_rank = static_cast<int>(slowest - by_rank.begin());
                    });
  return f;
}

}  // namespace shard8::profile
