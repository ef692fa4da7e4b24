// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "profile/spread.hpp"
#include "profile/step_times.hpp"

// The section of the report on experts. A row is a pair of a token and one of its experts.

namespace shard8::profile {

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
