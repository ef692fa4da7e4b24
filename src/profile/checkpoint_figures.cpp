// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "profile/checkpoint_figures.hpp"

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
  const std::vector<OverRanks> of_ranks = gather.over_ranks(std::array{steps_s + mine.after_last_s, -own});
  f.held_up_s = of_ranks[0].max;
  f.worst_rank = of_ranks[0].max_rank;
  if (of_ranks[1].max == -kNothing) return f;
  f.slowest_bytes_per_s = -of_ranks[1].max;
  f.slowest_rank = of_ranks[1].max_rank;
  return f;
}

}  // namespace shard8::profile
