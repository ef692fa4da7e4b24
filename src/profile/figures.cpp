// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "profile/figures.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>

#include "profile/report.hpp"
#include "profile/spread.hpp"

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
  const auto exposed_of = [&](std::size_t i) { return spread_of(of_ranks[i], gather.ranks); };
  constexpr auto kFirstOfExperts = static_cast<std::size_t>(Exchange::routing);
  bool experts = false, tensor = false;
  for (std::size_t i = 0; i < kOther; ++i) (i < kFirstOfExperts ? tensor : experts) |= exposed_of(i).max > 0;
  for (std::size_t i = 0; i < means.size(); ++i) {
    const Spread exposed = exposed_of(i);
    const auto exchange = static_cast<Exchange>(i);
    const bool of_experts = i >= kFirstOfExperts && i < kOther;
    if (of_experts && !experts) continue;
    if (i < kFirstOfExperts && experts && !tensor) continue;
    if (i < kOther)
      rows.push_back({std::string(name_of(exchange)), std::string(name_of(methods[exchange])), exposed});
    else if (i == kAll || exposed.max > 0)
      rows.push_back({i == kAll ? "all" : "other", "", exposed});
  }
  return rows;
}

ExchangeMethods OverlapChoice::resolve(ExchangeMethods methods) const {
  std::ranges::replace(methods, ExchangeMethod::automatic, ExchangeMethod::off);
  for (const Row& row : rows) methods[row.exchange] = row.chosen();
  return methods;
}

std::string to_text(const OverlapChoice& choice) {
  if (choice.rows.empty()) return {};
  std::string text = fmt::format("overlap of the keys that are auto: {}\n", choice.from);
  text += fmt::format("  {:<12}{:>12}  {:<10}{:>12}  {}\n", "key", "plain ms", "method", "ms", "chosen");
  std::string overrides;
  for (const OverlapChoice::Row& row : choice.rows) {
    text += fmt::format("  {:<12}{:>12.4f}  {:<10}{:>12.4f}  {}\n", name_of(row.exchange), 1e3 * row.plain_s,
                        name_of(row.method), 1e3 * row.method_s, name_of(row.chosen()));
    overrides += fmt::format(" overlap.{}={}", name_of(row.exchange), name_of(row.chosen()));
  }
  return text + fmt::format("  as overrides:{}\n", overrides);
}

namespace {

double median_of(const std::vector<std::vector<double>>& blocks) {
  std::vector<double> steps;
  for (const auto& block : blocks) steps.insert(steps.end(), block.begin(), block.end());
  return percentile(std::move(steps), 50);
}

}  // namespace

double CompareOff::with_s() const { return median_of(with); }
double CompareOff::without_s() const { return median_of(without); }

std::string to_text(const CompareOff& compared) {
  if (!compared.measured())
    return fmt::format("step time with overlap: not compared with off, cut short by {}\n", compared.cut_short);
  return fmt::format("step time with overlap {:.3f} ms, without {:.3f} ms (ratio {:.3f}, blocks {}){}\n",
                     1e3 * compared.with_s(), 1e3 * compared.without_s(), compared.ratio(), compared.blocks(),
                     compared.cut_short.empty() ? "" : ", cut short by " + compared.cut_short);
}

CheckpointFigures checkpoints_over_ranks(const CheckpointCounts& mine, double steps_s, const Gather& gather) {
  CheckpointFigures f;
  f.written = mine.written;
  f.failed = mine.failed;
  f.waited = mine.waited;
  f.bytes = mine.bytes;
  f.durable_longest_s = mine.longest_s;
  if (mine.written > 0) f.durable_mean_s = mine.durable_s / static_cast<double>(mine.written);
  if (mine.durable_s > 0) f.bytes_per_s = static_cast<double>(mine.bytes) / mine.durable_s;
  // A rank that writes nothing, because another one holds the same boxes, is no slow rank.
  constexpr double kNothing = std::numeric_limits<double>::infinity();
  const double own = mine.own_bytes > 0 && mine.own_s > 0 ? static_cast<double>(mine.own_bytes) / mine.own_s : kNothing;
  const std::vector<OverRanks> of_ranks = gather.over_ranks(std::array{steps_s + mine.after_last_s, -own});
  f.held_up_s = of_ranks[0].max;
  f.worst_rank = of_ranks[0].max_rank;
  if (of_ranks[1].max == -kNothing) return f;
  f.slowest_bytes_per_s = -of_ranks[1].max;
  f.slowest_rank = of_ranks[1].max_rank;
  return f;
}

std::string to_text(const Totals& t) {
  if (t.legs <= 1) return {};
  const std::string without =
      t.not_recorded > 0 ? fmt::format(" ({} more, without a line in metrics.jsonl, do not count here)", t.not_recorded)
                         : "";
  return fmt::format(
      "all {} legs: {} steps from step {}{}, {} trained again, {} tokens, {:.3f} s of steps, {:.1f} tokens/s\n", t.legs,
      t.steps, t.first_step, without, t.trained_again, t.tokens, t.step_s, t.tokens_per_s());
}

namespace {

constexpr double kMiB = 1024.0 * 1024.0;

double real(std::int64_t n) { return static_cast<double>(n); }

double exposed_of(const StepTimes& times, Exchange exchange) {
  return times.exchange[static_cast<std::size_t>(exchange)];
}

}  // namespace

void ExpertCounts::add(const ExpertCounts& other) {
  if (other.steps == 0) return;
  ranks = other.ranks;
  least = steps == 0 ? other.least : std::min(least, other.least);
  most = std::max(most, other.most);
  mean += other.mean;
  steps += other.steps;
  sent += other.sent;
  received += other.received;
  busiest += other.busiest;
  dispatched_bytes += other.dispatched_bytes;
  combined_bytes += other.combined_bytes;
  layers += other.layers;
  rounds += other.rounds;
  most_rounds = std::max(most_rounds, other.most_rounds);
}

ExpertFigures experts_over_ranks(const ExpertCounts& mine, const StepTimes& times, std::int64_t steps,
                                 std::span<const InFlightRow> in_flight, const Gather& gather) {
  const double counted = real(std::max<std::int64_t>(mine.steps, 1));
  const double timed = real(std::max<std::int64_t>(steps, 1));
  const std::vector<OverRanks> of_ranks = gather.over_ranks(
      std::array{real(mine.sent) / counted, real(mine.received) / counted, real(mine.busiest) / counted,
                 real(mine.dispatched_bytes) / counted, real(mine.combined_bytes) / counted, real(mine.rounds),
                 real(mine.most_rounds), exposed_of(times, Exchange::routing) / timed,
                 exposed_of(times, Exchange::dispatch) / timed, times.experts / timed,
                 exposed_of(times, Exchange::combine) / timed});
  const auto spread = [&](std::size_t i) { return spread_of(of_ranks[i], gather.ranks); };
  ExpertFigures figures{.ranks = mine.ranks,
                        .steps = mine.steps,
                        .least = mine.least,
                        .most = mine.most,
                        .mean = mine.mean / counted,
                        .sent = spread(0),
                        .received = spread(1),
                        .dispatched_bytes = spread(3),
                        .combined_bytes = spread(4),
                        .most_rounds = static_cast<std::int64_t>(of_ranks[6].max),
                        .routing = spread(7),
                        .dispatch = spread(8),
                        .products = spread(9),
                        .combine = spread(10)};
  if (of_ranks[1].sum > 0) figures.busiest = of_ranks[2].sum / of_ranks[1].sum;
  if (mine.layers > 0) figures.rounds = of_ranks[5].sum / (real(mine.layers) * real(gather.ranks));
  for (const InFlightRow& row : in_flight) {
    if (row.operation != name_of(Collective::all_to_all) || row.group != "expert") continue;
    figures.in_flight_s += row.seconds;
    figures.exposed_s += row.exposed_s;
  }
  return figures;
}

std::string to_text(const ExpertFigures& f, std::span<const std::string> hosts) {
  if (f.steps == 0) return {};
  constexpr int kName = 24;
  std::string text =
      fmt::format("\n{:<{}}{:>14}{:>14}{:>14}  {}\n", "experts, of a step", kName, "min", "mean", "max", "worst rank");
  const auto out = std::back_inserter(text);
  fmt::format_to(out, "{:<{}}{:>14}{:>14.1f}{:>14}\n", "tokens of an expert", kName, f.least, f.mean, f.most);
  const auto row = [&](const char* name, const Spread& s, double scale, int digits) {
    fmt::format_to(out, "{:<{}}{:>14.{}f}{:>14.{}f}{:>14.{}f}  {} ({})\n", name, kName, scale * s.min, digits,
                   scale * s.mean, digits, scale * s.max, digits, s.worst_rank,
                   hosts[static_cast<std::size_t>(s.worst_rank)]);
  };
  const bool exchanged = f.ranks > 1;
  row("rows sent", f.sent, 1, 1);
  row("rows received", f.received, 1, 1);
  if (exchanged) {
    row("MiB dispatched", f.dispatched_bytes, 1 / kMiB, 3);
    row("MiB combined", f.combined_bytes, 1 / kMiB, 3);
    row("routing ms", f.routing, 1e3, 3);
    row("dispatch ms", f.dispatch, 1e3, 3);
  }
  row("products ms", f.products, 1e3, 3);
  if (exchanged) row("combine ms", f.combine, 1e3, 3);
  fmt::format_to(out, "rounds of a layer: mean {:.2f}, most {}", f.rounds, f.most_rounds);
  if (exchanged)
    fmt::format_to(
        out, "   busiest rank of a layer: {:.3f} times the mean rows   in flight: {:.3f} ms, {:.1f} % of it hidden",
        f.busiest, 1e3 * f.in_flight_s, 100 * f.hidden());
  return text + '\n';
}

std::string to_json(const ExpertFigures& f) {
  using Json = nlohmann::ordered_json;
  const auto spread = [](const Spread& s) -> Json {
    return {{"min", s.min}, {"mean", s.mean}, {"max", s.max}, {"worst_rank", s.worst_rank}};
  };
  return Json{{"ranks", f.ranks},
              {"steps", f.steps},
              {"tokens", {{"least", f.least}, {"mean", f.mean}, {"most", f.most}}},
              {"rows_sent", spread(f.sent)},
              {"rows_received", spread(f.received)},
              {"busiest", f.busiest},
              {"rounds", {{"mean", f.rounds}, {"most", f.most_rounds}}},
              {"dispatched_bytes", spread(f.dispatched_bytes)},
              {"combined_bytes", spread(f.combined_bytes)},
              {"routing_s", spread(f.routing)},
              {"dispatch_s", spread(f.dispatch)},
              {"products_s", spread(f.products)},
              {"combine_s", spread(f.combine)},
              {"in_flight_s", f.in_flight_s},
              {"exposed_s", f.exposed_s}}
      .dump();
}

}  // namespace shard8::profile
