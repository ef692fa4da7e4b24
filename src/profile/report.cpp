// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "profile/report.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.hpp"

namespace shard8::profile {
namespace {

struct Peaks {
  std::string_view words[2];         ///< the name contains both; empty: any
  std::array<double, 3> tera_flops;  ///< TFLOP/s by Products; data sheets give twice as many "with sparsity"
};

/// The first row that matches a device's name counts.
constexpr Peaks kPeaks[] = {
    {{"H200", "NVL"}, {60, 835.5, 1670.5}},   //
    {{"H200", ""}, {67, 989.4, 1978.9}},      // SXM
    {{"H100", "PCIe"}, {51.2, 756, 1513}},    //
    {{"H100", "NVL"}, {60, 835.5, 1670.5}},   //
    {{"H100", "HBM3"}, {67, 989.4, 1978.9}},  // SXM
    {{"GH200", ""}, {67, 989.4, 1978.9}},     //
    {{"A100", ""}, {19.5, 312, 0}},           //
    {{"GB200", ""}, {80, 2500, 5000}},        //
    {{"B200", ""}, {75, 2250, 4500}},         // HGX
};

/// Whether the name contains `word` as a whole word. A hyphen ends a word, so "A100-SXM4" contains "A100". True for an
/// empty word.
bool has(std::string_view name, std::string_view word) {
  if (word.empty()) return true;
  const auto at = name.find(word);
  if (at == std::string_view::npos || (at > 0 && name[at - 1] != ' ')) return false;
  const auto after = name.substr(at + word.size());
  return after.empty() || after.front() == ' ' || after.front() == '-';
}

using nlohmann::json;

double mean_seconds(const Spreads& spreads, std::string_view phase, std::string_view part = "") {
  for (std::size_t i = 0; i < kTimedRows; ++i) {
    if (timed_rows()[i].phase == phase && timed_rows()[i].part == part) return spreads[i].mean;
  }
  base::fail(base::ExitCode::failed, "no phase '{}' with part '{}' is timed", phase, part);
}

std::string encode(const std::vector<CollectiveKey>& keys) {
  json rows = json::array();
  for (const CollectiveKey& key : keys)
    rows.push_back({static_cast<int>(key.op), key.group, key.group_size, key.dtype, key.bytes});
  return rows.dump();
}

std::vector<CollectiveKey> decode(const std::string& text) {
  std::vector<CollectiveKey> keys;
  for (const json& row : json::parse(text))
    keys.push_back({static_cast<Collective>(row[0].get<int>()), row[1].get<std::string>(), row[2].get<int>(),
                    row[3].get<std::string>(), row[4].get<std::uint64_t>()});
  return keys;
}

/// The kinds of collectives that any rank called, sorted. In each round the lowest rank with unknown kinds broadcasts
/// all of them. Most ranks call the same kinds, so a few rounds are enough.
std::vector<CollectiveKey> kinds_of_all_ranks(const CollectiveLog& log, const Gather& gather) {
  std::set<CollectiveKey> known;
  for (;;) {
    std::vector<CollectiveKey> unknown;
    for (const auto& [key, stats] : log.entries())
      if (!known.contains(key)) unknown.push_back(key);
    const double has_unknown = unknown.empty() ? 0 : 1;
    const OverRanks any = gather.over_ranks({&has_unknown, 1}).at(0);
    if (any.max == 0) return {known.begin(), known.end()};
    std::string text = encode(unknown);
    gather.broadcast(text, any.max_rank);
    for (CollectiveKey& key : decode(text)) known.insert(std::move(key));
  }
}

std::vector<CollectiveRow> collective_rows(const CollectiveLog& log, const std::vector<CollectiveKey>& kinds,
                                           double steps, const Gather& gather) {
  constexpr std::size_t kFigures = 5;
  std::vector<double> mine;
  for (const CollectiveKey& key : kinds) {
    const auto found = log.entries().find(key);
    const CollectiveStats stats = found == log.entries().end() ? CollectiveStats{} : found->second;
    mine.insert(mine.end(), {found == log.entries().end() ? 0.0 : 1.0, static_cast<double>(stats.calls), stats.total_s,
                             stats.exposed_s, static_cast<double>(stats.bytes)});
  }
  const std::vector<OverRanks> of_ranks = gather.over_ranks(mine);
  std::vector<CollectiveRow> rows;
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    const OverRanks* const of_kind = of_ranks.data() + kFigures * k;
    const double ranks = of_kind[0].sum, calls = of_kind[1].sum, total_s = of_kind[2].sum, exposed_s = of_kind[3].sum;
    const double per_step = 1 / (ranks * std::max(steps, 1.0));
    CollectiveKey call = kinds[k];
    if (bytes_vary(call.op)) call.bytes = static_cast<std::uint64_t>(of_kind[4].sum / calls + 0.5);
    rows.push_back({.key = call,
                    .calls_per_step = calls * per_step,
                    .total_s = total_s * per_step,
                    .exposed_s = exposed_s * per_step,
                    .algbw = algbw(call, total_s / calls),
                    .busbw = busbw(call, total_s / calls)});
  }
  return rows;
}

/// `kinds` are those of all ranks; `step_s` is the longest that a step can have been in flight.
std::vector<InFlightRow> in_flight_rows(const CollectiveLog& log, const std::vector<CollectiveKey>& kinds, double steps,
                                        double step_s, const Gather& gather) {
  if (kinds.empty()) return {};
  std::set<CollectiveGroup> groups;
  for (const CollectiveKey& key : kinds) groups.insert({key.op, key.group, key.group_size});
  constexpr std::size_t kFigures = 3;
  std::vector<double> mine;
  double exposed = 0;
  for (const CollectiveGroup& group : groups) {
    double of_group = 0;
    bool called = false;
    for (const auto& [key, stats] : log.entries()) {
      if (CollectiveGroup{key.op, key.group, key.group_size} != group) continue;
      of_group += stats.exposed_s;
      called = true;
    }
    exposed += of_group;
    const auto found = log.in_flight().find(group);
    mine.insert(mine.end(),
                {called ? 1.0 : 0.0, found == log.in_flight().end() ? 0.0 : found->second.seconds(), of_group});
  }
  mine.insert(mine.end(), {1.0, log.any_in_flight().seconds(), exposed});
  const std::vector<OverRanks> of_ranks = gather.over_ranks(mine);
  std::vector<InFlightRow> rows;
  for (const CollectiveGroup& group : groups)
    rows.push_back({.operation = std::string(name_of(group.op)), .group = group.group, .group_size = group.group_size});
  rows.push_back({.operation = "any"});
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const OverRanks* const of_row = of_ranks.data() + kFigures * i;
    const double per_step = 1 / (of_row[0].sum * std::max(steps, 1.0));
    rows[i].seconds = std::min(of_row[1].sum * per_step, step_s);
    rows[i].exposed_s = std::min(of_row[2].sum * per_step, rows[i].seconds);
  }
  return rows;
}

/// Every rank passes the same tensors in the same order.
std::vector<CastFigures> sum_casts(std::vector<CastFigures> casts, const Gather& gather) {
  constexpr std::size_t kCounts = 3, kFigures = 2 * kCounts + 1;
  std::vector<double> mine;
  for (const CastFigures& c : casts) {
    // Counts in two halves, so that their sums in double are exact.
    for (const std::uint64_t count : {c.elements, c.saturated, c.flushed}) {
      mine.push_back(static_cast<double>(count >> 32));
      mine.push_back(static_cast<double>(count & 0xffffffffu));
    }
    mine.push_back(c.scale_change);
  }
  const std::vector<OverRanks> of_ranks = gather.over_ranks(mine);
  for (std::size_t i = 0; i < casts.size(); ++i) {
    const OverRanks* const of_tensor = of_ranks.data() + kFigures * i;
    std::array<std::uint64_t*, kCounts> counts{&casts[i].elements, &casts[i].saturated, &casts[i].flushed};
    for (std::size_t c = 0; c < kCounts; ++c)
      *counts[c] = (static_cast<std::uint64_t>(of_tensor[2 * c].sum) << 32) +
                   static_cast<std::uint64_t>(of_tensor[2 * c + 1].sum);
    casts[i].scale_change = of_tensor[2 * kCounts].max;
  }
  return casts;
}

std::vector<IssueRow> issue_rows(const IssueTimes* issues, double steps, const Gather& gather) {
  std::vector<IssueRow> rows;
  if (issues == nullptr || steps <= 0) return rows;
  for (int i = 0; i < kIssues; ++i) {
    const CallTimes& mine = issues->calls(static_cast<Issue>(i));
    const std::array<double, 4> figures{static_cast<double>(mine.calls()), mine.sum_s(), mine.longest_s(),
                                        mine.median_s()};
    IssueRow row{.what = std::string(name_of(static_cast<Issue>(i)))};
    const std::vector<OverRanks> of_ranks = gather.over_ranks(figures);
    const double calls = of_ranks[0].sum, sum = of_ranks[1].sum;
    row.max_s = of_ranks[2].max;
    row.p50_s = of_ranks[3].max;
    if (calls == 0) continue;
    row.calls_per_step = static_cast<double>(mine.calls()) / steps;
    row.mean_s = sum / calls;
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace

double peak_flops(std::string_view device, Products products) {
  if (has(device, "MIG")) return 0;  // a slice of a device: "NVIDIA H100 80GB HBM3 MIG 1g.10gb"
  for (const Peaks& peaks : kPeaks)
    if (has(device, peaks.words[0]) && has(device, peaks.words[1]))
      return 1e12 * peaks.tera_flops[static_cast<std::size_t>(products)];
  return 0;
}

Report make_report(const StepRecord& steps, const CollectiveLog& log, const ReportInput& input, const Gather& gather) {
  Report report;
  report.skipped = steps.skipped();
  report.first_step = input.first_step + report.skipped;
  report.hosts = gather.texts(input.host);
  report.ranks = gather.ranks;
  report.times = spread_over_ranks(steps, gather, input.every_rank);
  if (input.methods) report.exchanges = exchange_rows(steps.sum(), steps.measured(), *input.methods, gather);
  const auto measured = static_cast<double>(report.measured_steps());
  const std::vector<CollectiveKey> kinds = kinds_of_all_ranks(log, gather);
  report.collectives = collective_rows(log, kinds, measured, gather);
  report.in_flight = in_flight_rows(log, kinds, measured, report.times.mean.back().mean, gather);
  report.peak_flops = input.peak_flops;
  report.verification = input.verification;
  report.casts = sum_casts(input.casts, gather);
  report.emulated = input.emulated;
  report.issues = issue_rows(input.issues, measured, gather);
  if (input.processor) report.processor = processor_over_ranks(*input.processor, gather);
  if (input.energy) {
    const double tokens = input.trains ? input.tokens_per_step * measured : 0;
    report.energy = energy_over_ranks(*input.energy, report.measured_steps(), tokens, gather);
  }
  report.validation = input.validation;
  if (input.experts && report.measured_steps() > 0)
    report.experts = experts_over_ranks(*input.experts, steps.sum(), report.measured_steps(), report.in_flight, gather);
  if (input.checkpoints) {
    const auto stall = static_cast<std::size_t>(Phase::checkpoint_stall);
    report.checkpoints =
        checkpoints_over_ranks(*input.checkpoints, steps.skipped_sum().phase[stall] + steps.sum().phase[stall], gather);
  }

  report.p50_s = percentile(report.times.drawn_s, 50);
  report.p95_s = percentile(report.times.drawn_s, 95);
  report.p99_s = percentile(report.times.drawn_s, 99);

  const Spreads& mean = report.times.mean;
  const double step = mean.back().mean;
  if (step > 0) {
    report.coverage = 1 - mean_seconds(mean, "other") / step;
    report.exposed_communication =
        (mean_seconds(mean, "gather_wait") + mean_seconds(mean, "reduce_wait") +
         mean_seconds(mean, "forward", "tensor_comm") + mean_seconds(mean, "backward", "tensor_comm")) /
        step;
  }
  if (report.times.longest_s > 0) {
    double timed_s = steps.sum().total;  // what the ranks waited for checkpoints behind the last step, too
    if (input.checkpoints) timed_s += input.checkpoints->after_last_s;
    const double steps_per_s = measured / gather.over_ranks({&timed_s, 1}).at(0).max;
    report.tokens_per_s = input.tokens_per_step * steps_per_s;
    report.flops_per_s_per_rank = input.flops_per_step * steps_per_s / report.ranks;
  }
  return report;
}

}  // namespace shard8::profile
