// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "profile/collective_log.hpp"
#include "profile/energy.hpp"
#include "profile/figures.hpp"
#include "profile/processor.hpp"
#include "profile/spread.hpp"
#include "profile/step_times.hpp"

namespace shard8::profile {

/// Whether the run reached what its deck requires.
struct Verification {
  /// not_reached: the run stopped before its last step. not_checked: the run is shorter than the limits of its final
  /// loss are for. In both, nothing that was checked has failed.
  enum class Status : std::uint8_t { not_configured, passed, failed, not_reached, not_checked };
  Status status = Status::not_configured;
  std::string why{};  ///< reason of `failed` and `not_checked`
};

/// Counts of the casts to 8 bits of one kind of tensor since the start of the run.
struct CastFigures {
  std::string tensor{};         ///< "qkv input", "fc1 weight", "proj output gradient", ...
  std::string dtype{};          ///< "e4m3" or "e5m2"
  std::uint64_t elements = 0;   ///< elements cast; a repeated cast counts again
  std::uint64_t saturated = 0;  ///< elements above the format's largest number
  std::uint64_t flushed = 0;    ///< elements that the cast changed to zero
  double scale_change = 0;      ///< largest factor, up or down, of a scale from one step to the next; 0: none
};

/// The formats that matrix products read; fp32 means without TF32.
enum class Products : std::uint8_t { fp32, bf16, fp8 };

/// Peak FLOP/s of dense matrix products on an NVIDIA device. `device` is the name that CUDA reports ("NVIDIA H200").
/// 0 for an unknown device, a MIG slice of a device, or if the device has no products of this format. Source: NVIDIA's
/// data sheets.
double peak_flops(std::string_view device, Products products);

/// What a report needs besides the times and the collectives.
struct ReportInput {
  std::int64_t first_step = 0;  ///< number of the first step that this process timed
  double tokens_per_step = 0;   ///< of the whole job
  double flops_per_step = 0;    ///< model FLOPs of the whole job
  double peak_flops = 0;        ///< FLOP/s of one rank; 0: not known, and the report has no MFU
  std::string host{};           ///< of this rank
  bool trains = true;           ///< false: a skeleton run, whose steps take in no tokens
  bool every_rank = false;      ///< keep the seconds of each row of steps on each rank; the same on every rank
  Verification verification{};
  std::vector<CastFigures> casts{};               ///< of this rank; the same tensors in the same order on every rank
  std::string emulated{};                         ///< recipe whose matrix products are emulated ("mxfp8"); empty: none
  const IssueTimes* issues = nullptr;             ///< of this rank; null: no device computes
  std::optional<CheckpointCounts> checkpoints{};  ///< of this rank; none: the run writes no checkpoints
  std::optional<ValidationFigures> validation{};  ///< none: the run does not validate
  std::optional<ExpertCounts> experts{};          ///< of this rank's measured steps; none: no layer has experts
  std::optional<MeasuredUse> processor{};         ///< of this rank; none: it was not read
  std::optional<EnergyCounts> energy{};           ///< of this rank; none: nothing looked for counters
  std::optional<ExchangeMethods> methods{};       ///< none: tensor and expert groups have one rank
};

/// The time that the host takes to issue one kind of work, over all ranks and calls.
struct IssueRow {
  std::string what;
  double calls_per_step = 0;                ///< on this rank
  double mean_s = 0, p50_s = 0, max_s = 0;  ///< p50_s: the largest of the ranks' medians (CallTimes)
};

/// One kind of collective. Figures are means over the ranks that called it.
struct CollectiveRow {
  CollectiveKey key;  ///< if bytes_vary(): bytes of the mean call of these ranks
  double calls_per_step = 0;
  double total_s = 0, exposed_s = 0;  ///< seconds per step; total_s adds up calls that are in flight at once
  double algbw = 0, busbw = 0;        ///< bytes/s, from the total time of a call

  double call_s() const { return calls_per_step > 0 ? total_s / calls_per_step : 0; }  ///< of one call
};

/// For how long at least one collective was in flight: from its start until this rank noticed its end. Seconds of a
/// step, means over the ranks that made such calls. `seconds` is at most the step.
struct InFlightRow {
  std::string operation{}, group{};  ///< "any" and empty: all collectives together
  int group_size = 0;                ///< 0: all
  double seconds = 0;
  double exposed_s = 0;  ///< in which the rank only waited
};

/// The figures of a whole job: the same on every rank, but for lists by rank, which rank 0 alone has.
struct Report {
  int ranks = 1;
  std::vector<std::string> hosts;  ///< of each rank
  std::int64_t first_step = 0;     ///< number of the first measured step
  std::int64_t skipped = 0;        ///< steps left out before the first measured step
  StepSpreads times;
  double coverage = 0;  ///< share of the step in phases other than `other`
  /// Percentiles of the steps (StepSpreads::drawn_s); a step's time is that of its slowest rank.
  double p50_s = 0, p95_s = 0, p99_s = 0;
  std::vector<ExchangeRow> exchanges;  ///< empty where the tensor group has one rank
  std::vector<CollectiveRow> collectives;
  std::vector<InFlightRow> in_flight;  ///< by operation and group, then of all; empty without collectives
  /// Of the whole job: tokens of the measured steps over the time of these steps and of what the slowest rank waited
  /// for checkpoints behind the last one. The Figure of Merit.
  double tokens_per_s = 0;
  double flops_per_s_per_rank = 0;   ///< model FLOP/s
  double exposed_communication = 0;  ///< share of the step in gather_wait, reduce_wait and tensor_comm
  double peak_flops = 0;             ///< as in ReportInput
  Verification verification{};
  std::vector<CastFigures> casts{};  ///< counts summed over ranks; scale_change is the largest of all ranks
  std::string emulated{};
  std::vector<IssueRow> issues{};
  std::optional<ProcessorFigures> processor{};     ///< of the measured steps
  std::optional<EnergyFigures> energy{};           ///< of the measured steps
  std::optional<CheckpointFigures> checkpoints{};  ///< of the whole run, the steps left out included
  std::optional<ValidationFigures> validation{};   ///< of the whole run
  std::optional<ExpertFigures> experts{};          ///< of the measured steps; none: no layer has experts
  std::optional<CompareOff> compare_off{};         ///< make_report() leaves it empty
  /// What a skeleton run kept of a step, run.skeleton; empty: it trained. make_report() leaves it empty.
  std::string skeleton{};
  /// The machine on which the step was projected, not run; empty: the figures were measured. make_report() leaves it
  /// empty.
  std::string projected{};

  std::int64_t measured_steps() const { return times.steps; }
};

/// Makes the report from this rank's steps and collectives. `log` must have measured in the measured steps only.
/// Collective: every rank passes the same number of steps.
Report make_report(const StepRecord& steps, const CollectiveLog& log, const ReportInput& input, const Gather& gather);

/// The text printed at the end of a run, from the report of rank 0: the tables, then the block of figures. Rows of
/// emulated products are labelled.
std::string to_text(const Report& report);

/// The lines of the printed report that warn of its figures, each without its line end.
std::vector<std::string> warnings_of(const Report& report);

/// The verdict as the last line of a report says it: "VERIFICATION: PASSED", with a line end.
std::string to_text(const Verification& verification);

}  // namespace shard8::profile
