// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "profile/experts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <nlohmann/json.hpp>

#include "profile/report.hpp"

namespace shard8::profile {

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
