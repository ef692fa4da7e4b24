// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace shard8::base {

/// What the process says to its shell; every rank leaves with the same one.
enum class ExitCode : int {
  ok = 0,            ///< done
  deck = 2,          ///< bad deck or bad usage
  environment = 3,   ///< ranks, devices or libraries are not as needed
  checkpoint = 4,    ///< checkpoint unusable
  failed = 5,        ///< failed while running
  verification = 6,  ///< ran to the end, but the result is not what the deck asks for
  stopped = 75,      ///< stopped early with a checkpoint written: run again to go on
};

/// The number for exit().
constexpr int to_int(ExitCode code) { return static_cast<int>(code); }

}  // namespace shard8::base
