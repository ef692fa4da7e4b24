// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/bench.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/text.hpp"
#include "profile/spread.hpp"
#include "train/overlap/choice.hpp"

namespace shard8::bench {

GemmRows bench_gemm(train::Assembly& assembly) {
  assembly.start(kernels::Tuning::exhaustive);
  GemmRows rows = assembly.trainer().libraries()->choices();
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.microseconds > b.microseconds; });
  return rows;
}

std::string to_text(const GemmRows& rows) {
  std::string text = fmt::format("{:>10} {:>10} {:>10} {:>10} {:>8} {:>7}  {}\n", "us", "TFLOP/s", "first us",
                                 "best us", "of best", "guess", "product");
  for (const auto& c : rows) {
    const auto share = c.best_microseconds > 0
                           ? fmt::format("{:.1f} %", 100.0 * std::min(1.0f, c.best_microseconds / c.microseconds))
                           : std::string("-");
    const auto guess = c.cutlass ? std::string("CUTLASS") : fmt::format("{}/{}", c.guess + 1, c.guesses);
    text += fmt::format("{:>10.1f} {:>10.1f} {:>10.1f} {:>10.1f} {:>8} {:>7}  {}{}\n", c.microseconds,
                        1e-6 * c.flops / static_cast<double>(c.microseconds), c.first_microseconds, c.best_microseconds,
                        share, guess, c.product, c.searched.empty() ? "" : "; " + c.searched);
  }
  return text;
}

std::string to_json(const GemmRows& rows, const Measured& measured) {
  using Json = nlohmann::ordered_json;
  const auto milliseconds = [](float us) { return us > 0 ? Json(1e-3 * static_cast<double>(us)) : Json(); };
  Json out{{"bench", "gemm"},           {"machine", measured.machine}, {"version", measured.version},
           {"commit", measured.commit}, {"date", measured.date},       {"rows", Json::array()}};
  for (const auto& c : rows) {
    out["rows"].push_back({{"key", fmt::format("{}x{}x{} {}", c.m, c.n, c.k, c.dtype)},
                           {"product", c.product},
                           {"m", c.m},
                           {"n", c.n},
                           {"k", c.k},
                           {"dtype", c.dtype},
                           {"out_dtype", c.out_dtype},
                           {"library", c.cutlass ? "CUTLASS" : "cuBLASLt"},
                           {"product_ms", milliseconds(c.microseconds)},
                           {"first_ms", milliseconds(c.first_microseconds)},
                           {"best_ms", milliseconds(c.best_microseconds)},
                           {"searched", c.searched}});
  }
  return out.dump(2);
}

namespace {

OverlapRow time_case(const train::OverlapCase& c, train::OverlapTiming& timing, const OverlapSettings& settings) {
  timing.once(c.prepare);
  std::vector<const std::function<void()>*> variants{&c.product, &c.alone, &c.sequential, &c.overlapped};
  if (c.flags) variants.push_back(&c.flags);
  std::array<std::vector<double>, 5> times;
  for (int block = 0; block < settings.blocks; ++block) {
    const std::vector<double> slowest = timing.largest(timing.in_turns(variants, settings.repetitions));
    for (std::size_t v = 0; v < variants.size(); ++v) times[v].push_back(slowest[v]);
  }
  OverlapRow row{.key = std::string(name_of(c.exchange.name)),
                 .method = std::string(name_of(c.exchange.method)),
                 .m = c.m,
                 .n = c.n,
                 .k = c.k,
                 .dtype = std::string(name_of(c.dtype)),
                 .exchange = std::string(name_of(c.moved.op)),
                 .exchange_dtype = c.moved.dtype,
                 .exchange_bytes = c.moved.bytes,
                 .product = block_times(times[0]),
                 .alone = block_times(times[1]),
                 .sequential = block_times(times[2]),
                 .overlapped = block_times(times[3]),
                 .flags = std::nullopt};
  if (!times[4].empty()) row.flags = block_times(times[4]);
  row.busbw = profile::busbw(c.moved, 1e-3 * row.alone.median);
  return row;
}

using Json = nlohmann::ordered_json;

/// The members of a row with their names in files, in their order.
Json fields_of(const OverlapRow& row) {
  Json out{{"key", row.key}, {"method", row.method}, {"m", row.m}, {"n", row.n}, {"k", row.k}, {"dtype", row.dtype}};
  out["exchange"] = row.exchange;
  out["exchange_dtype"] = row.exchange_dtype;
  out["exchange_bytes"] = row.exchange_bytes;
  const auto times = [&](const std::string& name, const std::optional<BlockTimes>& t) {
    out[name + "_ms"] = t ? Json(t->median) : Json();
    out[name + "_min_ms"] = t ? Json(t->least) : Json();
    out[name + "_max_ms"] = t ? Json(t->most) : Json();
  };
  times("product", row.product);
  times("exchange", row.alone);
  times("sequential", row.sequential);
  times("overlapped", row.overlapped);
  times("flags", row.flags);
  const auto hidden = row.hidden();
  out["hidden"] = hidden ? Json(*hidden) : Json();
  out["exchange_gb_per_s"] = 1e-9 * row.busbw;
  return out;
}

Json fields_of(const OverlapBench& bench, const Measured& measured) {
  return {{"blocks", bench.settings.blocks},
          {"repetitions", bench.settings.repetitions},
          {"ranks", bench.ranks},
          {"tensor", bench.tensor},
          {"machine", measured.machine},
          {"version", measured.version},
          {"commit", measured.commit},
          {"date", measured.date}};
}

/// One value of a line in CSV. Text with a comma or quotes is quoted.
std::string csv_value(const Json& value) {
  if (value.is_null()) return {};
  if (!value.is_string()) return value.dump();
  const auto& text = value.get_ref<const std::string&>();
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + '"';
}

std::string csv_line(const Json& fields, bool names) {
  std::string line;
  for (const auto& [name, value] : fields.items())
    line += (line.empty() ? "" : ",") + (names ? name : csv_value(value));
  return line + '\n';
}

}  // namespace

BlockTimes block_times(std::span<const double> milliseconds) {
  SHARD8_REQUIRE(!milliseconds.empty(), "there are no blocks");
  const auto [least, most] = std::minmax_element(milliseconds.begin(), milliseconds.end());
  return {profile::percentile({milliseconds.begin(), milliseconds.end()}, 50), *least, *most};
}

std::optional<double> hidden_share(double product, double sequential, double overlapped) {
  constexpr double kLeast = 0.02;  // chosen: less is noise
  for (const double time : {product, sequential, overlapped})
    if (!std::isfinite(time) || time <= 0) return std::nullopt;
  if (sequential - product < kLeast * sequential) return std::nullopt;
  return std::clamp((sequential - overlapped) / (sequential - product), 0.0, 1.0);
}

std::optional<double> OverlapRow::hidden() const {
  return hidden_share(product.median, sequential.median, overlapped.median);
}

deck::Config overlap_bench_deck(deck::Config config) {
  config.overlap.enable = true;
  config.overlap.min_gflop = 0;
  for (const profile::Exchange key : profile::kOverlapKeys) {
    profile::ExchangeMethod& method = config.overlap.methods[key];
    if (method != profile::ExchangeMethod::ring) method = profile::ExchangeMethod::automatic;
  }
  return config;
}

OverlapBench bench_overlap(const deck::Config& config, comm::Communicator world, const tensor::Exec& exec, int threads,
                           const OverlapSettings& settings) {
  SHARD8_REQUIRE(settings.blocks > 0 && settings.repetitions > 0, "a benchmark of {} blocks of {} repetitions",
                 settings.blocks, settings.repetitions);
  const comm::Mesh mesh =
      comm::make_mesh(std::move(world), config.mesh.extents(), model::Overlap::make(config).groups());
  const train::Setup setup = train::Setup::make(config, mesh.world.rank(), threads);
  train::OverlapTiming timing(setup, mesh, exec);
  OverlapBench bench{.settings = settings,
                     .ranks = mesh.world.size(),
                     .tensor = setup.dims.tensor,
                     .parts_problem = timing.parts_problem(),
                     .push_problem = timing.push_problem(),
                     .rows = {}};
  for (const train::OverlapCase& c : timing.cases()) bench.rows.push_back(time_case(c, timing, settings));
  return bench;
}

std::string to_text(const OverlapBench& bench) {
  constexpr auto kLine = "{:<10} {:<8} {:>6} {:>6} {:>6} {:<5} {:>10} {:>10} {:>10} {:>10} {:>10} {:>8} {:>7}\n";
  constexpr auto kSpread = "{:<10} {:<8} {:>18} {:>18} {:>18} {:>18} {:>18}\n";
  std::string text = fmt::format(kLine, "", "", "", "", "", "", "product", "exchange", "sequential", "overlapped",
                                 "flags", "hidden", "GB/s") +
                     fmt::format(kLine, "key", "method", "M", "N", "K", "dtype", "ms", "ms", "ms", "ms", "ms", "%", "");
  const auto milliseconds = [](double t) { return fmt::format("{:.4f}", t); };
  for (const OverlapRow& r : bench.rows) {
    const auto hidden = r.hidden();
    text += fmt::format(kLine, r.key, r.method, r.m, r.n, r.k, r.dtype, milliseconds(r.product.median),
                        milliseconds(r.alone.median), milliseconds(r.sequential.median),
                        milliseconds(r.overlapped.median), r.flags ? milliseconds(r.flags->median) : "-",
                        hidden ? fmt::format("{:.1f}", 100 * *hidden) : "-", fmt::format("{:.2f}", 1e-9 * r.busbw));
  }
  std::vector<std::string> slower;
  for (const OverlapRow& r : bench.rows)
    if (r.overlapped.median > r.sequential.median) slower.push_back(r.key);
  if (!slower.empty()) text += fmt::format("\nslower than the plain order: {}\n", fmt::join(slower, ", "));
  text += fmt::format("\nleast..most of {}, ms\n", base::count(bench.settings.blocks, "block", "blocks"));
  const auto spread = [](const BlockTimes& t) { return fmt::format("{:.4f}..{:.4f}", t.least, t.most); };
  for (const OverlapRow& r : bench.rows)
    text += fmt::format(kSpread, r.key, r.method, spread(r.product), spread(r.alone), spread(r.sequential),
                        spread(r.overlapped), r.flags ? spread(*r.flags) : "-");
  return text;
}

std::string to_csv(const OverlapBench& bench, const Measured& measured) {
  const Json common = fields_of(bench, measured);
  std::string text;
  for (const OverlapRow& row : bench.rows) {
    Json fields = fields_of(row);
    fields.update(common);
    if (text.empty()) text = csv_line(fields, true);
    text += csv_line(fields, false);
  }
  return text;
}

std::string to_json(const OverlapBench& bench, const Measured& measured) {
  Json out = fields_of(bench, measured);
  out["parts_problem"] = bench.parts_problem;
  out["push_problem"] = bench.push_problem;
  out["rows"] = Json::array();
  for (const OverlapRow& row : bench.rows) out["rows"].push_back(fields_of(row));
  return out.dump(2);
}

}  // namespace shard8::bench
