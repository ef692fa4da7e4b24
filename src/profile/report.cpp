// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "profile/report.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/error.hpp"

namespace shard8::profile {
namespace {

using nlohmann::json;

double mean_of(const Spreads& spreads, std::string_view phase, std::string_view part = "") {
  for (std::size_t i = 0; i < kTimed; ++i) {
    if (timed()[i].phase == phase && timed()[i].part == part) return spreads[i].mean;
  }
  base::fail(base::ExitCode::failed, "no phase '{}' with part '{}' is timed", phase, part);
}

std::string encode(const CollectiveLog& log) {
  json rows = json::array();
  for (const auto& [key, stats] : log.entries()) {
    rows.push_back({static_cast<int>(key.op), key.group, key.group_size, key.dtype, key.bytes, stats.calls,
                    stats.total_s, stats.exposed_s});
  }
  return rows.dump();
}

struct RankSum {
  CollectiveStats stats;
  int ranks = 0;
};

// Ranks may have made different collectives, so all keys are brought together.
std::vector<CollectiveRow> collective_rows(const CollectiveLog& log, double steps, const Gather& gather) {
  std::map<CollectiveKey, RankSum> sums;
  for (const std::string& text : gather.texts(encode(log))) {
    for (const json& row : json::parse(text)) {
      const CollectiveKey key{static_cast<Collective>(row[0].get<int>()), row[1].get<std::string>(), row[2].get<int>(),
                              row[3].get<std::string>(), row[4].get<std::uint64_t>()};
      RankSum& sum = sums[key];
      sum.stats.calls += row[5].get<std::uint64_t>();
      sum.stats.total_s += row[6].get<double>();
      sum.stats.exposed_s += row[7].get<double>();
      ++sum.ranks;
    }
  }
  std::vector<CollectiveRow> rows;
  for (const auto& [key, sum] : sums) {
    const double per_step = 1 / (sum.ranks * std::max(steps, 1.0));
    const auto calls = static_cast<double>(sum.stats.calls);
    rows.push_back({.key = key,
                    .calls_per_step = calls * per_step,
                    .total_s = sum.stats.total_s * per_step,
                    .exposed_s = sum.stats.exposed_s * per_step,
                    .algbw = algbw(key, sum.stats.total_s / calls),
                    .busbw = busbw(key, sum.stats.total_s / calls)});
  }
  return rows;
}

// The kinds are the same on every rank.
std::vector<CastFigures> sum_casts(std::vector<CastFigures> casts, const Gather& gather) {
  if (casts.empty()) return casts;
  std::vector<double> mine;
  for (const CastFigures& c : casts) {
    mine.insert(mine.end(), {static_cast<double>(c.elements), static_cast<double>(c.saturated),
                             static_cast<double>(c.flushed), c.scale_change});
  }
  const std::vector<double> all = gather.doubles(mine);
  for (std::size_t i = 0; i < casts.size(); ++i) {
    CastFigures& sum = casts[i];
    sum.elements = sum.saturated = sum.flushed = 0;
    for (std::size_t at = 4 * i; at < all.size(); at += mine.size()) {
      sum.elements += static_cast<std::uint64_t>(all[at]);
      sum.saturated += static_cast<std::uint64_t>(all[at + 1]);
      sum.flushed += static_cast<std::uint64_t>(all[at + 2]);
      sum.scale_change = std::max(sum.scale_change, all[at + 3]);
    }
  }
  return casts;
}

std::vector<IssueRow> issue_rows(const IssueTimes* issues, double steps, const Gather& gather) {
  std::vector<IssueRow> rows;
  if (issues == nullptr || steps <= 0) return rows;
  for (int i = 0; i < kIssues; ++i) {
    const auto& mine = issues->of(static_cast<Issue>(i));
    const std::array<double, 4> figures{
        static_cast<double>(mine.size()), std::accumulate(mine.begin(), mine.end(), 0.0),
        mine.empty() ? 0.0 : *std::max_element(mine.begin(), mine.end()), percentile(mine, 50)};
    const std::vector<double> all = gather.doubles(figures);
    IssueRow row{.what = std::string(name_of(static_cast<Issue>(i)))};
    double calls = 0, sum = 0;
    for (std::size_t at = 0; at < all.size(); at += figures.size()) {
      calls += all[at];
      sum += all[at + 1];
      row.max_s = std::max(row.max_s, all[at + 2]);
      row.p50_s = std::max(row.p50_s, all[at + 3]);
    }
    if (calls == 0) continue;
    row.calls_per_step = static_cast<double>(mine.size()) / steps;
    row.mean_s = sum / calls;
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace

Report make_report(const std::vector<StepTimes>& steps, const CollectiveLog& log, const ReportInput& input,
                   const Gather& gather) {
  Report report;
  const auto done = static_cast<std::int64_t>(steps.size());
  report.skipped = std::clamp<std::int64_t>(input.timing_skip, 0, done);
  report.first_step = input.first_step + report.skipped;
  report.hosts = gather.texts(input.host);
  report.ranks = static_cast<int>(report.hosts.size());
  report.times = spread_over_ranks(std::span(steps).subspan(static_cast<std::size_t>(report.skipped)), gather);
  const auto measured = static_cast<double>(report.measured_steps());
  report.collectives = collective_rows(log, measured, gather);
  report.peak_flops = input.peak_flops;
  report.verification = input.verification;
  report.casts = sum_casts(input.casts, gather);
  report.emulated = input.emulated;
  report.issues = issue_rows(input.issues, measured, gather);

  std::vector<double> step_s;
  for (const Spreads& step : report.times.steps) step_s.push_back(step.back().max);
  report.p50_s = percentile(step_s, 50);
  report.p95_s = percentile(step_s, 95);
  report.p99_s = percentile(step_s, 99);

  const Spreads& mean = report.times.mean;
  const double step = mean.back().mean;
  if (step > 0) {
    report.coverage = 1 - mean_of(mean, "other") / step;
    report.exposed_communication =
        (mean_of(mean, "gather_wait") + mean_of(mean, "reduce_wait") + mean_of(mean, "forward", "tensor_comm") +
         mean_of(mean, "backward", "tensor_comm")) /
        step;
  }
  if (report.times.longest_s > 0) {
    const double steps_per_s = measured / report.times.longest_s;
    report.tokens_per_s = input.tokens_per_step * steps_per_s;
    report.flops_per_s_per_rank = input.flops_per_step * steps_per_s / report.ranks;
  }
  return report;
}

}  // namespace shard8::profile
