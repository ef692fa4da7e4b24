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
TimedRow timed_phase() {
  return {std::string(name_of(phase)), "", phase_seconds<phase>};
}

template <Phase phase, Part part>
TimedRow timed_part() {
  return {std::string(name_of(phase)), std::string(name_of(part)), part_seconds<phase == Phase::backward, part>};
}

}  // namespace

void for_each_gathered(std::span<const double> mine, const Gather& gather,
                       const std::function<void(std::size_t i, std::span<const double> by_rank)>& use) {
  const auto ranks = static_cast<std::size_t>(gather.ranks);
  const std::size_t block_length = std::max<std::size_t>(kGatheredBytes / (ranks * sizeof(double)), 1);
  std::vector<double> by_rank(ranks);
  for (std::size_t first = 0; first < mine.size(); first += block_length) {
    const auto block = mine.subspan(first, std::min(block_length, mine.size() - first));
    const std::vector<double> all = gather.doubles(block);
    if (all.empty()) continue;  // not rank 0
    SHARD8_REQUIRE(all.size() == ranks * block.size(), "{} values of {} ranks were gathered as {}", block.size(), ranks,
                   all.size());
    for (std::size_t i = 0; i < block.size(); ++i) {
      for (std::size_t r = 0; r < ranks; ++r) by_rank[r] = all[r * block.size() + i];
      use(first + i, by_rank);
    }
  }
}

Spread spread_of(const OverRanks& value, int ranks) {
  return {.min = value.min, .mean = value.sum / ranks, .max = value.max, .worst_rank = value.max_rank};
}

Spread spread_of(std::span<const double> by_rank) {
  SHARD8_REQUIRE(!by_rank.empty(), "a spread over no ranks");
  Spread s{.min = by_rank[0], .mean = 0, .max = by_rank[0], .worst_rank = 0};
  for (std::size_t r = 0; r < by_rank.size(); ++r) {
    s.mean += by_rank[r] / static_cast<double>(by_rank.size());
    s.min = std::min(s.min, by_rank[r]);
    if (by_rank[r] > s.max) {
      s.max = by_rank[r];
      s.worst_rank = static_cast<int>(r);
    }
  }
  return s;
}

const std::array<TimedRow, kTimedRows>& timed_rows() {
  static const std::array<TimedRow, kTimedRows> all = {
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
      timed_phase<Phase::checkpoint_stall>(),
      timed_phase<Phase::other>(),
      {"step", "", [](const StepTimes& times) { return times.total; }},
  };
  return all;
}

std::string part_label(const TimedRow& row, bool emulated) {
  return emulated && row.part == name_of(Part::gemm) ? row.part + " (emulated)" : row.part;
}

namespace {

/// Appends the seconds of a step, as the mean of `steps`, in the order of timed_rows().
void append_means(std::vector<double>& values, const StepTimes& sum, std::int64_t steps) {
  for (const TimedRow& row : timed_rows()) values.push_back(row.seconds(sum) / static_cast<double>(steps));
}

void gather_every(StepSpreads& result, const StepRecord& mine, const Gather& gather, std::size_t most) {
  const auto blocks = mine.blocks();
  const auto fit = std::max<std::size_t>(most / (kTimedRows * static_cast<std::size_t>(gather.ranks)), 1);
  std::size_t joined = 1;  // blocks of a row
  while ((blocks.size() + joined - 1) / joined > fit) joined *= 2;
  result.every_steps = mine.block_steps() * static_cast<std::int64_t>(joined);
  std::vector<double> values;
  for (std::size_t first = 0; first < blocks.size(); first += joined) {
    StepTimes sum;
    std::int64_t steps = 0;
    for (const StepRecord::Block& block : blocks.subspan(first, std::min(joined, blocks.size() - first))) {
      sum += block.sum;
      steps += block.steps;
    }
    append_means(values, sum, steps);
  }
  for_each_gathered(values, gather, [&](std::size_t, std::span<const double> by_rank) {
    for (const double x : by_rank) result.every.push_back(static_cast<float>(x));
  });
}

}  // namespace

StepSpreads spread_over_ranks(const StepRecord& mine, const Gather& gather, bool every, std::size_t most_every) {
  StepSpreads result;
  if (mine.measured() == 0) return result;
  const auto steps = static_cast<double>(mine.measured());
  result.row_steps = mine.block_steps();
  result.steps = mine.measured();
  std::vector<double> values, drawn, sums;
  values.reserve(mine.blocks().size() * kTimedRows);
  for (const StepRecord::Block& block : mine.blocks()) {
    append_means(values, block.sum, block.steps);
    if (block.steps == mine.block_steps()) drawn.push_back(block.drawn_s);
  }
  result.rows.resize(mine.blocks().size());
  const std::vector<OverRanks> of_rows = gather.over_ranks(values);
  for (std::size_t i = 0; i < of_rows.size(); ++i)
    result.rows[i / kTimedRows][i % kTimedRows] = spread_of(of_rows[i], gather.ranks);
  for (const OverRanks& step : gather.over_ranks(drawn)) result.drawn_s.push_back(step.max);
  if (every) gather_every(result, mine, gather, most_every);
  for (const TimedRow& row : timed_rows()) sums.push_back(row.seconds(mine.sum()));
  const std::vector<OverRanks> of_sums = gather.over_ranks(sums);
  for (std::size_t i = 0; i < kTimedRows; ++i) result.mean[i] = spread_of(of_sums[i], gather.ranks);
  for_each_gathered(sums, gather, [&](std::size_t i, std::span<const double> by_rank) {
    result.by_rank.resize(kTimedRows);
    for (const double sum : by_rank) result.by_rank[i].push_back(sum / steps);
  });
  result.longest_s = result.mean.back().max;
  for (Spread& s : result.mean) {
    for (double* const x : {&s.min, &s.mean, &s.max}) *x /= steps;
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
