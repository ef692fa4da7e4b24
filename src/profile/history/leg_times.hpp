// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace shard8::profile {

/// Where the time of one process of a training went, on rank 0. Points in time are seconds since the begin of 1970.
struct LegTimes {
  double began = 0;         ///< begin of the process
  double ended = 0;         ///< when its report was made
  double start_up_s = 0;    ///< from its begin to its first step
  double steps_s = 0;       ///< of all its steps, the first run.timing_skip ones included
  double held_up_s = 0;     ///< of these, for which checkpoints held training up
  double validation_s = 0;  ///< of validations, which are of no step
  double after_last_s = 0;  ///< for which checkpoints held it up behind the last step
};

}  // namespace shard8::profile
