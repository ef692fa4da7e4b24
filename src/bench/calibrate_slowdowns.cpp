// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// By which factors calls take longer beside collectives.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "bench/calibrate.hpp"
#include "profile/spread.hpp"

namespace shard8::bench {
namespace {

using machine::Load;

/// How many calls had one load in flight for some time, and no other.
std::int64_t calls_beside(const std::vector<SharedCall>& calls, std::size_t load) {
  return std::count_if(calls.begin(), calls.end(),
                       [load](const SharedCall& c) { return c.in_flight.share[std::size_t{1} << load] >= kAlone; });
}

/// The sum of the squares of what calls took less what they should take.
double squares(const std::vector<SharedCall>& calls, const Factors& factors) {
  double sum = 0;
  for (const SharedCall& c : calls) {
    const double error = c.seconds - c.alone_s * c.seconds / c.without(factors);
    sum += error * error;
  }
  return sum;
}

/// The step by Gauss and Newton from `factors`, in the logarithms of the fitted loads' factors: the solution of
/// J'J step = J' error, where t = t0 / D has the derivative t0 / D^2 * (the part of D beside the load).
Factors step_from(const std::vector<SharedCall>& calls, const Factors& factors,
                  const std::vector<std::size_t>& fitted) {
  const std::size_t n = fitted.size();
  std::array<std::array<double, kCollectiveLoads + 1>, kCollectiveLoads> a{};
  for (const SharedCall& c : calls) {
    const double rate = c.without(factors) / c.seconds, expected = c.alone_s / rate;
    std::array<double, kCollectiveLoads> slope{};
    for (std::size_t i = 0; i < n; ++i) {
      Factors stopped = factors;
      stopped[fitted[i]] = std::numeric_limits<double>::infinity();
      slope[i] = expected / rate * (rate - c.without(stopped) / c.seconds);
    }
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) a[i][j] += slope[i] * slope[j];
      a[i][n] += slope[i] * (c.seconds - expected);
    }
  }
  for (std::size_t i = 0; i < n; ++i) a[i][i] *= 1 + 1e-12;  // loads that are in flight together alone
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t r = 0; r < n; ++r) {
      if (r == i || !(a[i][i] > 0)) continue;
      const double f = a[r][i] / a[i][i];
      for (std::size_t k = i; k <= n; ++k) a[r][k] -= f * a[i][k];
    }
  Factors step{};
  for (std::size_t i = 0; i < n; ++i) step[fitted[i]] = a[i][i] > 0 ? a[i][n] / a[i][i] : 0;
  return step;
}

/// The factors in [0.25, 20] with the least squares(). 1 for loads with less than kEnoughBeside calls.
Factors best_factors(const std::vector<SharedCall>& calls) {
  std::vector<std::size_t> fitted;
  for (std::size_t load = 0; load < kCollectiveLoads; ++load)
    if (calls_beside(calls, load) >= kEnoughBeside) fitted.push_back(load);
  Factors factors{1, 1, 1};
  double least = squares(calls, factors);
  for (int round = 0; round < 50; ++round) {
    const Factors step = step_from(calls, factors, fitted);
    Factors next = factors;
    double at_next = least, part = 1;
    for (; part > 1e-6; part /= 2) {  // less of a step that overshoots
      for (const std::size_t load : fitted)
        next[load] = std::clamp(factors[load] * std::exp(std::clamp(part * step[load], -1.0, 1.0)), 0.25, 20.0);
      at_next = squares(calls, next);
      if (at_next < least) break;
    }
    if (!(at_next < least)) break;
    factors = next;
    least = at_next;
  }
  return factors;
}

}  // namespace

InFlight InFlight::of(Load load, double share) {
  InFlight of{.share = {1 - share}};
  of.share[set_of(load)] = share;
  return of;
}

double SharedCall::without(const Factors& factors) const {
  double alone = 0;
  for (std::size_t set = 0; set < in_flight.share.size(); ++set) {
    double part = in_flight.share[set];
    for (std::size_t load = 0; load < factors.size(); ++load)
      if ((set >> load & 1U) != 0) part /= factors[load];
    alone += part;
  }
  return seconds * alone;
}

Factors factors_of(const Slowdowns& slowdowns) {
  Factors factors{};
  for (std::size_t load = 0; load < factors.size(); ++load)
    factors[load] = slowdowns[load] ? slowdowns[load]->factor : 1;
  return factors;
}

Slowdowns fit_slowdowns(std::vector<SharedCall> calls, double farthest) {
  // A thread that loses its core, or a rank that came late, takes many times as long.
  Factors factors{1, 1, 1};
  for (int pass = 0; pass < 4 && !calls.empty(); ++pass) {
    factors = best_factors(calls);
    const auto distance = [&](const SharedCall& c) { return std::abs(c.without(factors) / c.alone_s - 1); };
    std::vector<double> distances;
    for (const SharedCall& c : calls) distances.push_back(distance(c));
    const double most = std::max(farthest * profile::percentile(distances, 50), 1e-4);
    if (pass < 3) std::erase_if(calls, [&](const SharedCall& c) { return distance(c) > most; });
  }
  Slowdowns slowdowns;
  for (std::size_t load = 0; load < kCollectiveLoads; ++load) {
    const std::int64_t count = calls_beside(calls, load);
    if (count >= kEnoughBeside && factors[load] >= 0.5 && factors[load] <= 10) slowdowns[load] = {factors[load], count};
  }
  return slowdowns;
}

}  // namespace shard8::bench
