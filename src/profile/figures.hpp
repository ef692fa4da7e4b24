// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "profile/metrics.hpp"
#include "profile/phase.hpp"
#include "profile/spread.hpp"
#include "profile/step_times.hpp"

// Sections of the report that are computed and printed on their own.

namespace shard8::profile {

/// The exposed time of one exchange of the tensor group, forward and backward together.
struct ExchangeRow {
  std::string name;    ///< of the exchange; "other": what counts as none; "all": their sum
  std::string method;  ///< "off", "bulk", ...; empty for "other" and "all"
  Spread exposed;      ///< seconds of a step over the ranks, of each rank's mean over the steps
};

/// A row for each exchange in the order of Exchange, one for "other" unless it is 0 on every rank, and one for "all",
/// which is tensor_comm of forward plus backward. The exchanges of expert groups have rows only if one of them took
/// time; then those of the tensor group have rows only if one of these took time, too. `sum` is that of the measured
/// steps of this rank; without steps there are no rows. Collective: every rank passes the same number of steps.
std::vector<ExchangeRow> exchange_rows(const StepTimes& sum, std::int64_t steps, const ExchangeMethods& methods,
                                       const Gather& gather);

/// What the keys `auto` of the deck's group overlap became in a run, and from which times.
struct OverlapChoice {
  struct Row {
    Exchange exchange{};
    ExchangeMethod method{};  ///< the method that auto stands for
    /// Seconds of the exchange and its product in the plain order, and with the method: the median over the blocks.
    double plain_s = 0, method_s = 0;
    bool taken = false;  ///< the run uses the method; false: off

    ExchangeMethod chosen() const { return taken ? method : ExchangeMethod::off; }
  };
  std::string from;       ///< "measured", or the file or checkpoint that the choice was read from
  std::vector<Row> rows;  ///< empty: no key was `auto`

  /// `methods` with the choice in place of every `auto`. Without a row an exchange is off.
  ExchangeMethods resolve(ExchangeMethods methods) const;
};

/// The table of the printed header, and the overrides of a deck that has the same methods without `auto`.
std::string to_text(const OverlapChoice& choice);

/// Step times with exchanges hidden behind matrix products and without, measured in blocks of steps in turns.
struct CompareOff {
  /// Seconds of the measured steps of each block, each on the step's slowest rank. There are as many blocks without as
  /// with, and in time each of `without` follows the one of `with`.
  std::vector<std::vector<double>> with, without;
  std::int64_t block_steps = 0;  ///< steps of a block, the ones left out included
  std::int64_t left_out = 0;     ///< steps at the begin of each block, which are not measured
  std::string cut_short{};       ///< what stopped it before its end ("SIGTERM"); empty: nothing

  bool measured() const { return !with.empty(); }
  std::int64_t blocks() const { return static_cast<std::int64_t>(with.size() + without.size()); }
  /// The median time in seconds of the steps of all blocks with hidden exchanges. The caller guarantees measured().
  double with_s() const;
  /// As with_s(), for the blocks without.
  double without_s() const;
  double ratio() const { return with_s() / without_s(); }
};

/// The line of the printed report.
std::string to_text(const CompareOff& compared);

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
  int worst_rank = 0;    ///< the rank that was held up longest
  double durable_mean_s = 0, durable_longest_s = 0;
  double bytes_per_s = 0;          ///< of all ranks: bytes of all checkpoints by the time until they were durable
  double slowest_bytes_per_s = 0;  ///< of the rank whose own bytes were written slowest
  int slowest_rank = 0;            ///< the rank of slowest_bytes_per_s

  /// Seconds that one checkpoint held the slowest rank up, on the mean of all, the failed ones included.
  double held_up_each_s() const {
    const std::int64_t begun = written + failed;
    return begun > 0 ? held_up_s / static_cast<double>(begun) : 0;
  }
};

/// `steps_s` is the time in the phase checkpoint_stall of all steps of this rank. Collective.
CheckpointFigures checkpoints_over_ranks(const CheckpointCounts& mine, double steps_s, const Gather& gather);

/// The validations of a run. `seconds` are rank 0's; the rest is the same on every rank.
struct ValidationFigures {
  std::int64_t every = 0;             ///< steps from one to the next
  std::int64_t batches = 0;           ///< of a validation
  std::int64_t tokens = 0;            ///< of a validation, without padding
  std::int64_t runs = 0;              ///< validations that came to their end
  std::int64_t stopped = 0;           ///< validations that a stop of the run ended before, without a loss
  double seconds = 0;                 ///< of the validations that came to their end
  std::int64_t last_step = 0;         ///< the step behind which the last of them ran
  std::optional<double> last_loss{};  ///< the loss of this validation; nothing: there was none

  double mean_s() const { return runs > 0 ? seconds / static_cast<double>(runs) : 0; }
};

/// What all legs of a training have done: what its metrics.jsonl holds, steps that were trained again counted once.
struct Totals {
  std::int64_t legs = 0;           ///< processes that trained, those that were killed included
  std::int64_t first_step = 0;     ///< number of the training's first step
  std::int64_t steps = 0;          ///< steps that are recorded
  std::int64_t not_recorded = 0;   ///< steps that were trained and have no line in metrics.jsonl
  std::int64_t trained_again = 0;  ///< steps that a later leg trained once more, since no checkpoint had them
  std::int64_t tokens = 0;         ///< of the recorded steps
  double step_s = 0;               ///< seconds of the recorded steps, on rank 0

  void add(const RecordedStep& step) {
    ++steps;
    tokens += step.tokens;
    step_s += step.step_s;
  }
  double tokens_per_s() const { return step_s > 0 ? static_cast<double>(tokens) / step_s : 0; }
};

/// The line of the report on all legs; empty for the first leg.
std::string to_text(const Totals& totals);

// The section of the report on experts. A row is a pair of a token and one of its experts.

/// What one rank counted of its layers with experts in a step, or in several steps together. What is not said to be of
/// this rank is the same on every rank. Padding rows and padding tokens count nowhere.
struct ExpertCounts {
  int ranks = 1;                     ///< of an expert group
  std::int64_t steps = 0;            ///< steps that were added up
  std::int64_t least = 0, most = 0;  ///< tokens that chose an expert of a layer in a step; of several steps extremes
  double mean = 0;                   ///< of these tokens, added up over the steps
  std::int64_t sent = 0;             ///< rows that this rank's tokens have in forward
  std::int64_t received = 0;         ///< rows that this rank's experts get in forward
  std::int64_t busiest = 0;  ///< rows that a layer's busiest rank of this rank's group gets, added up over layers
  /// Bytes that this rank gives to the all_to_alls of dispatch and of combine, forward and backward, rows that are
  /// dispatched again included. 0 in a group of one rank.
  std::int64_t dispatched_bytes = 0, combined_bytes = 0;
  std::int64_t layers = 0;       ///< layers with experts, counted for each micro-batch
  std::int64_t rounds = 0;       ///< of these layers in forward, as many as have rows
  std::int64_t most_rounds = 0;  ///< of one of these layers

  /// Adds other steps.
  void add(const ExpertCounts& other);
};

/// How the experts shared the tokens of the measured steps, and how long it took. Values are those of a step; a Spread
/// is over the ranks, of each rank's mean over the steps.
struct ExpertFigures {
  int ranks = 1;                     ///< of an expert group; 1: nothing is dispatched between ranks
  std::int64_t steps = 0;            ///< measured steps that were counted
  std::int64_t least = 0, most = 0;  ///< tokens that chose an expert of a layer, of all steps
  double mean = 0;                   ///< of these tokens
  Spread sent{}, received{};         ///< rows, see ExpertCounts
  /// The rows of a layer's busiest rank of an expert group by the mean of the group's ranks: how much longer products
  /// of experts take than with even routing, if time grows with rows. Mean over layers, micro-batches and groups.
  double busiest = 1;
  Spread dispatched_bytes{}, combined_bytes{};
  double rounds = 0;             ///< of a layer, the mean
  std::int64_t most_rounds = 0;  ///< of a layer, on any rank
  /// Seconds in forward and backward: exposed ones of the exchanges, and those of experts' products.
  Spread routing{}, dispatch{}, products{}, combine{};
  /// Seconds in which an all_to_all of an expert group was in flight, and in which the rank only waited for it; means
  /// over ranks.
  double in_flight_s = 0, exposed_s = 0;

  /// The share of in_flight_s in which ranks did something else than wait; 0 if nothing was in flight.
  double hidden() const { return in_flight_s > 0 ? 1 - exposed_s / in_flight_s : 0; }
};

struct InFlightRow;

/// `times` is the sum of this rank's `steps` measured steps, `in_flight` the rows of the report. Collective: every rank
/// passes the same numbers of steps, one at least.
ExpertFigures experts_over_ranks(const ExpertCounts& mine, const StepTimes& times, std::int64_t steps,
                                 std::span<const InFlightRow> in_flight, const Gather& gather);

/// The table of the printed report. `hosts`: of each rank.
std::string to_text(const ExpertFigures& figures, std::span<const std::string> hosts);
/// One JSON object, the member `experts` of summary.json.
std::string to_json(const ExpertFigures& figures);

}  // namespace shard8::profile
