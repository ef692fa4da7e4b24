// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <vector>

#include "base/text.hpp"
#include "profile/report.hpp"

namespace shard8::profile {
namespace {

using Out = std::back_insert_iterator<std::string>;

constexpr double kMinCoverage = 0.98;  ///< chosen: at most 2 % of a step may be in `other`

/// At least four significant digits, without an exponent.
std::string figure(double x) {
  const int decimals = x >= 1000 ? 1 : x >= 10 ? 2 : x >= 1 ? 3 : x >= 1e-3 ? 6 : 9;
  return fmt::format("{:.{}f}", x, decimals);
}

std::string coverage_text(const Report& report) {
  return fmt::format("named phases cover {:.2f} % of the step{}", 100 * report.coverage,
                     report.coverage < kMinCoverage ? ": less than 98 %, too little to trust the shares" : "");
}

void phases(Out out, const Report& report) {
  const double step = report.times.mean.back().mean;
  const bool emulated = !report.emulated.empty();
  const int width = 18;
  fmt::format_to(out, "{:<{}}{:>12}{:>12}{:>12}{:>10}  {}\n", report.projected.empty() ? "phase" : "projected phase",
                 width, "min ms", "mean ms", "max ms", "share %", "worst rank");
  for (std::size_t i = 0; i < kTimedRows; ++i) {
    const TimedRow& row = timed_rows()[i];
    const Spread& s = report.times.mean[i];
    const std::string name = row.part.empty() ? row.phase : "  " + part_label(row, emulated);
    fmt::format_to(out, "{:<{}}{:>12.3f}{:>12.3f}{:>12.3f}{:>10.2f}  {} ({})\n", name, width, 1e3 * s.min, 1e3 * s.mean,
                   1e3 * s.max, step > 0 ? 100 * s.mean / step : 0, s.worst_rank,
                   report.hosts[static_cast<std::size_t>(s.worst_rank)]);
  }
  if (emulated) fmt::format_to(out, "matrix products: {}, emulated: decoded to bf16\n", report.emulated);
  fmt::format_to(out, "{}\n", coverage_text(report));
  if (!report.projected.empty()) return;
  fmt::format_to(
      out, "step time: p50 {:.3f} ms, p95 {:.3f} ms, p99 {:.3f} ms over {} ({} left out){}\n", 1e3 * report.p50_s,
      1e3 * report.p95_s, 1e3 * report.p99_s,
      base::count(static_cast<std::int64_t>(report.measured_steps()), "step", "steps"), report.skipped,
      report.times.row_steps > 1 ? fmt::format(", of which {} were drawn", report.times.drawn_s.size()) : "");
}

void exchanges(Out out, const Report& report) {
  if (report.exchanges.empty()) return;
  const double step = report.times.mean.back().mean;
  const bool experts = std::ranges::any_of(
      report.exchanges, [](const ExchangeRow& row) { return row.name == name_of(Exchange::dispatch); });
  const char* const measured = experts ? "exchanges of tensor and experts" : "exchanges of the tensor group";
  fmt::format_to(out, "\n{:<32}{:<10}{:>12}{:>12}{:>10}  {}\n",
                 report.projected.empty() ? measured : "projected exchanges", "method", "exposed ms", "max ms",
                 "share %", "worst rank");
  for (const ExchangeRow& row : report.exchanges) {
    const Spread& s = row.exposed;
    fmt::format_to(out, "{:<32}{:<10}{:>12.3f}{:>12.3f}{:>10.2f}  {} ({})\n", row.name, row.method, 1e3 * s.mean,
                   1e3 * s.max, step > 0 ? 100 * s.mean / step : 0, s.worst_rank,
                   report.hosts[static_cast<std::size_t>(s.worst_rank)]);
  }
}

void collectives(Out out, const Report& report) {
  if (report.collectives.empty()) return;
  fmt::format_to(out, "\n{:<16}{:<16}{:<7}{:>14}{:>12}{:>12}{:>12}{:>12}{:>12}\n",
                 report.projected.empty() ? "collective" : "projected", "group(size)", "dtype", "bytes", "calls/step",
                 "ms/call", "exposed ms", "algbw GB/s", "busbw GB/s");
  for (const CollectiveRow& row : report.collectives) {
    fmt::format_to(out, "{:<16}{:<16}{:<7}{:>14}{:>12.2f}{:>12.3f}{:>12.3f}{:>12.3f}{:>12.3f}\n", name_of(row.key.op),
                   fmt::format("{}({})", row.key.group, row.key.group_size), row.key.dtype, row.key.bytes,
                   row.calls_per_step, 1e3 * row.call_s(), 1e3 * row.exposed_s, 1e-9 * row.algbw, 1e-9 * row.busbw);
  }
}

void in_flight(Out out, const Report& report) {
  if (report.in_flight.empty()) return;
  const double step = report.times.mean.back().mean;
  fmt::format_to(out, "\n{:<32}{:>14}{:>12}{:>12}\n",
                 report.projected.empty() ? "collectives in flight" : "projected collectives in flight", "ms of a step",
                 "share %", "exposed ms");
  for (const InFlightRow& row : report.in_flight)
    fmt::format_to(out, "{:<16}{:<16}{:>14.3f}{:>12.2f}{:>12.3f}\n", row.operation,
                   row.group.empty() ? "" : fmt::format("{}({})", row.group, row.group_size), 1e3 * row.seconds,
                   step > 0 ? 100 * row.seconds / step : 0, 1e3 * row.exposed_s);
}

/// part / whole in per cent, below 0.01 % in parts per million; empty if `part` is 0.
std::string share(std::uint64_t part, std::uint64_t whole) {
  if (part == 0 || whole == 0) return "";
  const double x = static_cast<double>(part) / static_cast<double>(whole);
  return x < 1e-4 ? fmt::format("{:.3g} ppm", 1e6 * x) : fmt::format("{:.3g} %", 100 * x);
}

void casts(Out out, const Report& report) {
  if (report.casts.empty()) return;
  fmt::format_to(out, "\n{:<26}{:<7}{:>16}{:>14}{:>15}{:>16}{:>15}{:>14}\n", "casts to 8 bits", "dtype", "elements",
                 "saturated", "", "flushed to 0", "", "scale change");
  for (const CastFigures& c : report.casts) {
    const std::string change = c.scale_change > 0 ? fmt::format("{:.4g}x", c.scale_change) : "-";
    fmt::format_to(out, "{:<26}{:<7}{:>16}{:>14}{:>15}{:>16}{:>15}{:>14}\n", c.tensor, c.dtype, c.elements, c.saturated,
                   share(c.saturated, c.elements), c.flushed, share(c.flushed, c.elements), change);
  }
}

void issues(Out out, const Report& report) {
  if (report.issues.empty()) return;
  fmt::format_to(out, "\n{:<26}{:>14}{:>12}{:>12}{:>12}\n", "host time to issue", "calls/step", "mean us", "p50 us",
                 "max us");
  for (const IssueRow& row : report.issues)
    fmt::format_to(out, "{:<26}{:>14.1f}{:>12.1f}{:>12.1f}{:>12.1f}\n", row.what, row.calls_per_step, 1e6 * row.mean_s,
                   1e6 * row.p50_s, 1e6 * row.max_s);
}

void checkpoints(Out out, const Report& report) {
  if (!report.checkpoints) return;
  const CheckpointFigures& c = *report.checkpoints;
  fmt::format_to(out, "\ncheckpoints: {}   failed: {}   bytes: {}   waited for the one before: {}\n", c.written,
                 c.failed, c.bytes, c.waited);
  fmt::format_to(out, "checkpoint hold-up: {:.3f} s   per checkpoint: {:.3f} s   worst rank: {} ({})\n", c.held_up_s,
                 c.held_up_each_s(), c.worst_rank, report.hosts[static_cast<std::size_t>(c.worst_rank)]);
  if (c.written == 0) return;
  fmt::format_to(out, "checkpoint durable after: {:.3f} s   longest: {:.3f} s\n", c.durable_mean_s,
                 c.durable_longest_s);
  fmt::format_to(out, "checkpoint GB/s: {:.3f}   slowest rank: {:.3f} ({}, {})\n", 1e-9 * c.bytes_per_s,
                 1e-9 * c.slowest_bytes_per_s, c.slowest_rank, report.hosts[static_cast<std::size_t>(c.slowest_rank)]);
}

void validation(Out out, const Report& report) {
  if (!report.validation) return;
  const ValidationFigures& v = *report.validation;
  fmt::format_to(out, "\nvalidation: {} times, mean {:.3f} s   batches: {}   tokens: {}", v.runs, v.mean_s(), v.batches,
                 v.tokens);
  if (v.last_loss) fmt::format_to(out, "   last loss: {:.6f} behind step {}", *v.last_loss, v.last_step);
  if (v.stopped > 0) fmt::format_to(out, "   stopped: {}, without a loss", v.stopped);
  fmt::format_to(out, "\n");
}

void figures(Out out, const Report& report) {
  if (!report.skeleton.empty()) {
    fmt::format_to(out, "\nskeleton of the {}: step {:.3f} ms   exposed communication: {:.2f} %\n", report.skeleton,
                   1e3 * report.times.mean.back().mean, 100 * report.exposed_communication);
    return;
  }
  const std::string_view mark = report.projected.empty() ? "" : "projected ";
  fmt::format_to(out,
                 "\n{}tokens/s: {}   tokens/s/rank: {}   model TFLOP/s/rank: {}   exposed communication: {:.2f} %\n",
                 mark, figure(report.tokens_per_s), figure(report.tokens_per_s / report.ranks),
                 figure(1e-12 * report.flops_per_s_per_rank), 100 * report.exposed_communication);
  if (report.peak_flops > 0) {
    fmt::format_to(out, "{}MFU: {:.2f} % of {} TFLOP/s per rank\n", mark,
                   100 * report.flops_per_s_per_rank / report.peak_flops, figure(1e-12 * report.peak_flops));
  }
  fmt::format_to(out, "{}Figure of Merit (FOM): {} tokens/s\n", mark, figure(report.tokens_per_s));
}

}  // namespace

std::string to_text(const Verification& v) {
  switch (v.status) {
    case Verification::Status::passed:
      return "VERIFICATION: PASSED\n";
    case Verification::Status::failed:
      return fmt::format("VERIFICATION: FAILED: {}\n", v.why);
    case Verification::Status::not_reached:
      return "VERIFICATION: NOT REACHED\n";
    case Verification::Status::not_checked:
      return fmt::format("VERIFICATION: NOT CHECKED: {}\n", v.why);
    case Verification::Status::not_configured:
      break;
  }
  return "VERIFICATION: NOT CONFIGURED\n";
}

std::vector<std::string> warnings_of(const Report& report) {
  std::vector<std::string> warnings;
  if (report.measured_steps() == 0) return warnings;
  if (report.coverage < kMinCoverage) warnings.push_back(coverage_text(report));
  if (report.processor && report.processor->busy()) warnings.push_back(busy_text(*report.processor, report.hosts));
  return warnings;
}

std::string to_text(const Report& report) {
  std::string text;
  const Out out(text);
  if (report.measured_steps() > 0) {
    phases(out, report);
    exchanges(out, report);
    collectives(out, report);
    in_flight(out, report);
    if (report.experts) text += to_text(*report.experts, report.hosts);
    casts(out, report);
    issues(out, report);
    checkpoints(out, report);
    validation(out, report);
    if (report.processor) text += to_text(*report.processor, report.hosts);
    if (report.energy) text += to_text(*report.energy);
    figures(out, report);
  } else {
    fmt::format_to(out, "no step was measured: all {} were left out (run.timing_skip)\n", report.skipped);
    casts(out, report);
    checkpoints(out, report);
    validation(out, report);
  }
  if (report.compare_off) text += to_text(*report.compare_off);
  text += to_text(report.verification);
  return text;
}

}  // namespace shard8::profile
