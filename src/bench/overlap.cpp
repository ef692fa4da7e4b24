// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/overlap.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <utility>

#include "profile/spread.hpp"
#include "train/overlap/timing.hpp"

namespace shard8::bench {

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
  const comm::Mesh mesh = comm::make_mesh(std::move(world), config.mesh.extents(), true);
  const train::Setup setup = train::Setup::make(config, mesh.world.rank(), threads);
  train::OverlapTiming timing(setup, mesh, exec);
  OverlapBench bench{.settings = settings,
                     .ranks = mesh.world.size(),
                     .tensor = setup.dims.tensor,
                     .parts_problem = timing.parts_problem(),
                     .rows = {}};
  for (const train::OverlapCase& c : timing.cases()) bench.rows.push_back(time_case(c, timing, settings));
  return bench;
}

}  // namespace shard8::bench
