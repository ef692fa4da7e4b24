// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "profile/spread.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"

namespace shard8::profile {
namespace {

// Steps gathered in one call: few calls, and no rank holds all steps of all ranks.
constexpr std::size_t kStepsAtOnce = 64;

template <Phase phase>
double phase_seconds(const StepTimes& times) {
  return times.phase[static_cast<std::size_t>(phase)];
}

template <int direction, Part part>
double part_seconds(const StepTimes& times) {
  return times.part[direction][static_cast<std::size_t>(part)];
}

template <Phase phase>
Timed timed_phase() {
  return {std::string(name_of(phase)), "", phase_seconds<phase>};
}

template <Phase phase, Part part>
Timed timed_part() {
  return {std::string(name_of(phase)), std::string(name_of(part)), part_seconds<phase == Phase::backward, part>};
}

Spreads spreads_at(const std::vector<double>& all, std::size_t ranks, std::size_t of_rank, std::size_t first) {
  Spreads spreads;
  std::vector<double> values(ranks);
  for (std::size_t i = 0; i < kTimed; ++i) {
    for (std::size_t r = 0; r < ranks; ++r) values[r] = all[r * of_rank + first + i];
    spreads[i] = spread_of(values);
  }
  return spreads;
}

}  // namespace

Spread spread_of(std::span<const double> of_ranks) {
  SHARD8_REQUIRE(!of_ranks.empty(), "a spread over no ranks");
  Spread s{.min = of_ranks[0], .mean = 0, .max = of_ranks[0], .worst_rank = 0};
  for (std::size_t r = 0; r < of_ranks.size(); ++r) {
    s.mean += of_ranks[r] / static_cast<double>(of_ranks.size());
    s.min = std::min(s.min, of_ranks[r]);
    if (of_ranks[r] > s.max) {
      s.max = of_ranks[r];
      s.worst_rank = static_cast<int>(r);
    }
  }
  return s;
}

const std::array<Timed, kTimed>& timed() {
  static const std::array<Timed, kTimed> all = {
      timed_phase<Phase::data>(),
      timed_phase<Phase::gather_wait>(),
      timed_phase<Phase::forward>(),
      timed_part<Phase::forward, Part::attention>(),
      timed_part<Phase::forward, Part::gemm>(),
      timed_part<Phase::forward, Part::tensor_comm>(),
      timed_part<Phase::forward, Part::elementwise>(),
      timed_phase<Phase::backward>(),
      timed_part<Phase::backward, Part::attention>(),
      timed_part<Phase::backward, Part::gemm>(),
      timed_part<Phase::backward, Part::tensor_comm>(),
      timed_part<Phase::backward, Part::elementwise>(),
      timed_phase<Phase::reduce_wait>(),
      timed_phase<Phase::optimizer>(),
      timed_phase<Phase::quantize>(),
      timed_phase<Phase::other>(),
      {"step", "", [](const StepTimes& times) { return times.total; }},
  };
  return all;
}

std::string part_label(const Timed& what, bool emulated) {
  return emulated && what.part == name_of(Part::gemm) ? what.part + " (emulated)" : what.part;
}

StepSpreads spread_over_ranks(std::span<const StepTimes> mine, const Gather& gather) {
  StepSpreads result;
  std::vector<double> sums(kTimed, 0.0);
  for (std::size_t first = 0; first < mine.size(); first += kStepsAtOnce) {
    const auto block = mine.subspan(first, std::min(kStepsAtOnce, mine.size() - first));
    std::vector<double> values;
    for (const StepTimes& times : block) {
      for (std::size_t i = 0; i < kTimed; ++i) {
        values.push_back(timed()[i].seconds(times));
        sums[i] += values.back();
      }
    }
    const std::vector<double> all = gather.doubles(values);
    for (std::size_t step = 0; step < block.size(); ++step) {
      result.steps.push_back(spreads_at(all, all.size() / values.size(), values.size(), step * kTimed));
    }
  }
  if (mine.empty()) return result;
  const std::vector<double> all = gather.doubles(sums);
  result.mean = spreads_at(all, all.size() / kTimed, kTimed, 0);
  result.longest_s = result.mean.back().max;
  for (Spread& s : result.mean) {
    for (double* const x : {&s.min, &s.mean, &s.max}) *x /= static_cast<double>(mine.size());
  }
  return result;
}

double percentile(std::vector<double> values, double p) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double place = p / 100 * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(std::floor(place));
  const auto above = std::min(below + 1, values.size() - 1);
  return values[below] + (place - static_cast<double>(below)) * (values[above] - values[below]);
}

}  // namespace shard8::profile
