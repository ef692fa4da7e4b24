// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace shard8::profile {

/// Step times with exchanges hidden behind matrix products and without, measured in blocks of steps in turns.
struct CompareOff {
  /// Seconds of the measured steps of each block, each on the step's slowest rank. There are as many blocks without as
  /// with, and in time each of `without` follows the one of `with`.
  std::vector<std::vector<double>> with, without;
  std::int64_t block_steps = 0;  ///< steps of a block, the ones left out included
  std::int64_t left_out = 0;     ///< of them, the first ones, which are not measured
  std::string cut_short{};       ///< what stopped it before its end ("SIGTERM"); empty: nothing

  bool measured() const { return !with.empty(); }
  std::int64_t blocks() const { return static_cast<std::int64_t>(with.size() + without.size()); }
  /// The median of the steps of all blocks. There must be blocks.
  double with_s() const;
  double without_s() const;
  double ratio() const { return with_s() / without_s(); }
};

/// The line of the printed report.
std::string to_text(const CompareOff& compared);

}  // namespace shard8::profile
