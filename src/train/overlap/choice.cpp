// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "train/overlap/choice.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>

#include "deck/overlap.hpp"
#include "profile/spread.hpp"
#include "train/overlap/timing.hpp"

namespace shard8::train {

using Row = profile::OverlapChoice::Row;
using Clock = std::chrono::steady_clock;

namespace {

double median(std::span<const double> values) { return profile::percentile({values.begin(), values.end()}, 50); }

bool all_finite(std::span<const double> values) {
  return std::all_of(values.begin(), values.end(), [](double v) { return std::isfinite(v); });
}

/// Of each block the time of the slowest rank.
void take_slowest(const comm::Communicator& world, ExchangeTimes& times) {
  world.all_reduce(times.plain, comm::Communicator::Reduce::max);
  world.all_reduce(times.overlapped, comm::Communicator::Reduce::max);
}

ExchangeTimes time_case(const OverlapCase& c, OverlapTiming& timing, double milliseconds) {
  // Chosen: with fewer than three blocks one disturbance decides.
  constexpr int kLeastBlocks = 3, kMostBlocks = 7, kMostRepetitions = 20;
  const auto begin = Clock::now();
  const auto too_long = [&] {
    const double taken = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
    return timing.largest({taken}).front() > milliseconds;
  };
  timing.once(c.prepare);
  const std::array<const std::function<void()>*, 2> variants{&c.sequential, &c.overlapped};
  const auto time_pair = [&] {
    const std::vector<double> slowest = timing.largest(timing.in_turns(variants, 1));
    return slowest[0] + slowest[1];
  };
  double pair = time_pair();
  if (!too_long()) pair = std::min(pair, time_pair());
  const int repetitions =
      static_cast<int>(std::clamp(milliseconds / (kMostBlocks * pair), 1.0, 1.0 * kMostRepetitions));
  ExchangeTimes times{.exchange = c.exchange.name, .method = c.exchange.method, .plain = {}, .overlapped = {}};
  for (int block = 0; block < kMostBlocks && (block < kLeastBlocks || !too_long()); ++block) {
    const std::vector<double> here = timing.in_turns(variants, repetitions, repetitions > 1);
    times.plain.push_back(here[0]);
    times.overlapped.push_back(here[1]);
  }
  return times;
}

}  // namespace

bool pays(std::span<const double> plain, std::span<const double> overlapped) {
  constexpr double kLeastGain = 0.01;  // chosen: less is noise, or gains nothing
  SHARD8_REQUIRE(!plain.empty() && plain.size() == overlapped.size(), "{} blocks in the plain order, {} with overlap",
                 plain.size(), overlapped.size());
  if (!all_finite(plain) || !all_finite(overlapped)) return false;
  std::size_t faster = 0;
  for (std::size_t i = 0; i < plain.size(); ++i) faster += overlapped[i] < plain[i] ? 1 : 0;
  return median(overlapped) <= (1 - kLeastGain) * median(plain) && 4 * faster >= 3 * plain.size();
}

profile::OverlapChoice choose_overlap(const comm::Communicator& world, std::vector<ExchangeTimes> times) {
  profile::OverlapChoice choice{.from = "measured", .rows = {}};
  std::string decided;
  for (ExchangeTimes& t : times) {
    take_slowest(world, t);
    choice.rows.push_back({t.exchange, t.method, 1e-3 * median(t.plain), 1e-3 * median(t.overlapped), false});
    decided += pays(t.plain, t.overlapped) ? '1' : '0';
  }
  world.broadcast(decided, 0);
  for (std::size_t i = 0; i < choice.rows.size(); ++i) choice.rows[i].taken = decided[i] == '1';
  return choice;
}

std::vector<Row> auto_rows(const deck::Config& config) {
  const profile::ExchangeMethods methods = deck::exchange_methods(config);
  std::vector<Row> rows;
  for (const profile::Exchange exchange : deck::exchanges_with(config, profile::ExchangeMethod::automatic))
    if (methods[exchange] != profile::ExchangeMethod::off)
      rows.push_back({.exchange = exchange, .method = methods[exchange]});
  return rows;
}

deck::Config auto_only(deck::Config config) {
  using profile::ExchangeMethod;
  std::ranges::replace_if(
      config.overlap.methods, [](ExchangeMethod m) { return m != ExchangeMethod::automatic; }, ExchangeMethod::off);
  return config;
}

std::vector<ExchangeTimes> time_auto(const deck::Config& config, const comm::Mesh& mesh, const tensor::Exec& exec,
                                     int threads, double seconds,
                                     const std::function<void(kernels::Libraries&)>& adopt) {
  const Setup setup = Setup::make(auto_only(config), mesh.world.rank(), threads);
  OverlapTiming timing(setup, mesh, exec, adopt);
  std::vector<ExchangeTimes> times;
  const double each = 1e3 * seconds / static_cast<double>(timing.cases().size());
  for (const OverlapCase& c : timing.cases()) times.push_back(time_case(c, timing, each));
  return times;
}

}  // namespace shard8::train
