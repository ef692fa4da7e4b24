// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>

namespace shard8::profile {

/// How long a fixed piece of work takes on the core of the calling thread. The neighbour of a hyperthread (another
/// machine of the hypervisor, for instance) and a low clock slow a core, and no time that the system counts shows it.
class CoreSpeed {
 public:
  /// The piece of work, about 4 µs of integer instructions that are in no need of memory and of each other, so that
  /// whatever shares the core slows them.
  static double seconds_of_work();

  /// Adds a sample: the shorter of two times of the work. Does nothing for kBetween after a sample, so that samples
  /// take about 0.1 % of the time.
  void sample();
  /// Adds a sample of this time, in s.
  void add(double seconds);

  std::int64_t samples() const { return samples_; }
  /// Mean and least over the samples in s, each sample counted with at most 4 times the least (a thread that lost its
  /// core meanwhile tells nothing of the core). 0 without samples.
  double mean_s() const;
  double least_s() const { return least_s_; }

 private:
  static constexpr std::chrono::milliseconds kBetween{10};

  std::chrono::steady_clock::time_point last_{};
  std::int64_t samples_ = 0;
  double sum_s_ = 0, least_s_ = 0;
};

}  // namespace shard8::profile
