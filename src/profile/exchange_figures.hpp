// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "profile/exchange.hpp"
#include "profile/spread.hpp"
#include "profile/step_times.hpp"

namespace shard8::profile {

/// The exposed time of one exchange of the tensor group, forward and backward together.
struct ExchangeRow {
  std::string name;    ///< of the exchange; "other": what counts as none; "all": their sum
  std::string method;  ///< "off", "bulk", ...; empty for "other" and "all"
  Spread exposed;      ///< seconds of a step over the ranks, of each rank's mean over the steps
};

/// A row for each exchange in the order of Exchange, one for "other" unless it is 0 on every rank, and one for "all",
/// which is tensor_comm of forward plus backward. `sum` is that of the measured steps of this rank; without steps
/// there are no rows. Collective: every rank passes the same number of steps.
std::vector<ExchangeRow> exchange_rows(const StepTimes& sum, std::int64_t steps, const ExchangeMethods& methods,
                                       const Gather& gather);

}  // namespace shard8::profile
