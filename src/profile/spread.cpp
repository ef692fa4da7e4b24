// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "profile/spread.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"

namespace shard8::profile {
namespace {

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

}  // namespace

void for_each_gathered(std::span<const double> mine, const Gather& gather,
                       const std::function<void(std::size_t i, std::span<const double> of_ranks)>& use) {
  const auto ranks = static_cast<std::size_t>(gather.ranks);
  const std::size_t at_once = std::max<std::size_t>(kGatheredBytes / (ranks * sizeof(double)), 1);
  std::vector<double> of_ranks(ranks);
  for (std::size_t first = 0; first < mine.size(); first += at_once) {
    const auto block = mine.subspan(first, std::min(at_once, mine.size() - first));
    const std::vector<double> all = gather.doubles(block);
    SHARD8_REQUIRE(all.size() == ranks * block.size(), "{} values of {} ranks were gathered as {}", block.size(), ranks,
                   all.size());
    for (std::size_t i = 0; i < block.size(); ++i) {
      for (std::size_t r = 0; r < ranks; ++r) of_ranks[r] = all[r * block.size() + i];
      use(first + i, of_ranks);
    }
  }
}

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
  if (mine.empty()) return result;
  std::vector<double> values, sums(kTimed, 0.0);
  values.reserve(mine.size() * kTimed);
  for (const StepTimes& times : mine) {
    for (std::size_t i = 0; i < kTimed; ++i) {
      values.push_back(timed()[i].seconds(times));
      sums[i] += values.back();
    }
  }
  result.steps.resize(mine.size());
  for_each_gathered(values, gather, [&](std::size_t i, std::span<const double> of_ranks) {
    result.steps[i / kTimed][i % kTimed] = spread_of(of_ranks);
  });
  for_each_gathered(sums, gather,
                    [&](std::size_t i, std::span<const double> of_ranks) { result.mean[i] = spread_of(of_ranks); });
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
