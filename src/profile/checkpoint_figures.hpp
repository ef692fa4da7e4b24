// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "profile/spread.hpp"

namespace shard8::profile {

/// The checkpoints of a run, as one rank counts them. What is not said to be of this rank is the same on every rank.
struct CheckpointCounts {
  std::int64_t written = 0, failed = 0;
  std::int64_t waited = 0;      ///< times that the loop waited for the checkpoint before
  std::uint64_t bytes = 0;      ///< of all that were written
  double durable_s = 0;         ///< from the begin of each one until it was durable, summed
  double longest_s = 0;         ///< the longest of these times
  double after_last_s = 0;      ///< for which this rank was held up after its last step
  std::uint64_t own_bytes = 0;  ///< of this rank in all that were written
  double own_s = 0;             ///< from the begin of each one until this rank's bytes were durable, summed
};

/// The checkpoints of a run over all ranks.
struct CheckpointFigures {
  std::int64_t written = 0, failed = 0, waited = 0;
  std::uint64_t bytes = 0;
  double held_up_s = 0;  ///< in all, of the rank that was held up longest
  int worst_rank = 0;    ///< that rank
  double durable_mean_s = 0, durable_longest_s = 0;
  double bytes_per_s = 0;          ///< of all ranks: bytes of all checkpoints by the time until they were durable
  double slowest_bytes_per_s = 0;  ///< of the rank whose own bytes were written slowest
  int slowest_rank = 0;            ///< that rank

  /// For one checkpoint, the failed ones included.
  double held_up_each_s() const {
    const std::int64_t begun = written + failed;
    return begun > 0 ? held_up_s / static_cast<double>(begun) : 0;
  }
};

/// `steps_s` is the time in the phase checkpoint_stall of all steps of this rank. Collective.
CheckpointFigures checkpoints_over_ranks(const CheckpointCounts& mine, double steps_s, const Gather& gather);

}  // namespace shard8::profile
