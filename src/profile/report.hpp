// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "profile/collective_log.hpp"
#include "profile/gather.hpp"
#include "profile/spread.hpp"
#include "profile/step_timer.hpp"

namespace shard8::profile {

/// Whether the run did what its deck asks for.
struct Verification {
  enum class Status : std::uint8_t { not_configured, passed, failed };
  Status status = Status::not_configured;
  std::string why{};  ///< of a failure
};

/// What casts to 8 bits did to one kind of tensor since the start of the run.
struct CastFigures {
  std::string tensor{};         ///< "qkv input", "fc1 weight", "proj output gradient", ...
  std::string dtype{};          ///< "e4m3" or "e5m2"
  std::uint64_t elements = 0;   ///< that were cast, recomputed ones again
  std::uint64_t saturated = 0;  ///< of them, above the largest number of the format
  std::uint64_t flushed = 0;    ///< of them, not zero before and zero after
  double scale_change = 0;      ///< largest factor, up or down, of a scale from one step to the next; 0: none
};

/// What a report needs to know beside times.
struct ReportInput {
  std::int64_t first_step = 0;   ///< number of the first step that was timed by this process
  std::int64_t timing_skip = 0;  ///< steps left out at the start
  double tokens_per_step = 0;    ///< of the whole job
  double flops_per_step = 0;     ///< model FLOPs of the whole job
  double peak_flops = 0;         ///< of one rank, per second; 0: not known, so no MFU
  std::string host{};            ///< of this rank
  Verification verification{};
  std::vector<CastFigures> casts{};    ///< of this rank; the same kinds in the same order on every rank
  std::string emulated{};              ///< what matrix products are emulated ("mxfp8"); empty: none
  const IssueTimes* issues = nullptr;  ///< of this rank's host, where a device computes
};

/// What the host took to have a device do something, over all ranks and calls.
struct IssueRow {
  std::string what;
  double calls_per_step = 0;
  double mean_s = 0, p50_s = 0, max_s = 0;  ///< p50: of the rank whose median is the largest
};

/// One kind of collective; times are means over the ranks that made it.
struct CollectiveRow {
  CollectiveKey key;
  double calls_per_step = 0;
  double total_s = 0, exposed_s = 0;  ///< per step
  double algbw = 0, busbw = 0;        ///< bytes/s, from the time from start to completion of a call
};

/// A whole job's figures, the same on every rank.
struct Report {
  int ranks = 1;
  std::vector<std::string> hosts;  ///< of each rank
  std::int64_t first_step = 0;     ///< number of the first measured step
  std::int64_t skipped = 0;        ///< steps left out before it
  StepSpreads times;
  double coverage = 0;                     ///< share of the step in named phases, i.e. not in `other`
  double p50_s = 0, p95_s = 0, p99_s = 0;  ///< of the steps' times, each the largest over ranks
  std::vector<CollectiveRow> collectives;
  double tokens_per_s = 0;  ///< of the whole job over the measured steps: the Figure of Merit
  double flops_per_s_per_rank = 0;
  double exposed_communication = 0;  ///< share of the step: gather_wait, reduce_wait and tensor_comm
  double peak_flops = 0;
  Verification verification{};
  std::vector<CastFigures> casts{};  ///< sums over ranks, largest change of all
  std::string emulated{};
  std::vector<IssueRow> issues{};

  std::int64_t measured_steps() const { return static_cast<std::int64_t>(times.steps.size()); }
};

/// From this rank's steps and collectives, all but the first `timing_skip` steps (the log must have
/// been measuring in those steps only). Collective: every rank calls it with equally many steps.
Report make_report(const std::vector<StepTimes>& steps, const CollectiveLog& log, const ReportInput& input,
                   const Gather& gather);

/// The tables and the block of figures, as printed at the end of a run. Times of emulated products
/// are labelled so.
std::string to_text(const Report& report);

}  // namespace shard8::profile
