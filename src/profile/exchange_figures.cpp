// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "profile/exchange_figures.hpp"

#include <array>
#include <cstddef>

namespace shard8::profile {

std::vector<ExchangeRow> exchange_rows(const StepTimes& sum, std::int64_t steps, const ExchangeMethods& methods,
                                       const Gather& gather) {
  std::vector<ExchangeRow> rows;
  if (steps == 0) return rows;
  constexpr std::size_t kOther = kExchanges, kAll = kExchanges + 1;
  std::array<double, kExchanges + 2> means{};
  for (std::size_t e = 0; e < sum.exchange.size(); ++e) {
    means[e] = sum.exchange[e] / static_cast<double>(steps);
    means[kAll] += means[e];
  }
  const std::vector<OverRanks> of_ranks = gather.over_ranks(means);
  for (std::size_t i = 0; i < means.size(); ++i) {
    const Spread exposed = spread_of(of_ranks[i], gather.ranks);
    const auto exchange = static_cast<Exchange>(i);
    if (i < kOther)
      rows.push_back({std::string(name_of(exchange)), std::string(name_of(methods[exchange])), exposed});
    else if (i == kAll || exposed.max > 0)
      rows.push_back({i == kAll ? "all" : "other", "", exposed});
  }
  return rows;
}

}  // namespace shard8::profile
