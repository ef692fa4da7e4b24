// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

namespace shard8::project {

/// What failures and checkpoints cost a long training. Times in seconds.
struct Failures {
  double between_s = 0;  ///< mean time between failures of the whole job
  double hold_up_s = 0;  ///< for which training waits at each checkpoint
  double durable_s = 0;  ///< from the begin of a checkpoint until it can be restarted from; at least hold_up_s
  double restart_s = 0;  ///< from a failure to the first new step, reading included
};

/// The share of wall-clock time in which training goes forward, with a checkpoint after every `interval_s` of training.
/// Daly's model of exponentially distributed failures (Future Generation Computer Systems 22, 2006, equation 13):
/// τ / (M e^((R + d − h)/M) (e^((τ + h)/M) − 1)), with the interval τ, the hold-up h, the time d until a checkpoint is
/// durable, the restart time R and the mean time between failures M. Daly's checkpoints are waited for, d = h. What is
/// trained while one becomes durable is trained again after a failure, as if the restart took that much longer.
double goodput(const Failures& failures, double interval_s);

/// The interval with the highest goodput. It begins with an estimate: for h < 2M Young's √(2hM) (Communications of the
/// ACM 17, 1974) with the further terms of Daly's series, else M. Neither estimate knows durable_s, so a search on
/// goodput() refines it.
double best_interval_s(const Failures& failures);

}  // namespace shard8::project
