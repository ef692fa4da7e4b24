// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "train/overlap/choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "deck/fields.hpp"
#include "deck/layout.hpp"
#include "deck/overlap.hpp"
#include "profile/spread.hpp"

namespace shard8::train {

using Row = profile::OverlapChoice::Row;
using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

namespace {

double median(std::span<const double> values) { return profile::percentile({values.begin(), values.end()}, 50); }

bool all_finite(std::span<const double> values) {
  return std::all_of(values.begin(), values.end(), [](double v) { return std::isfinite(v); });
}

/// Replaces the time of each block by that of the slowest rank. Collective.
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

namespace {

/// The keys of the deck on which the shapes and dtypes of products and exchanges depend, in addition to tokens and
/// mesh.
constexpr const char* kKeys[] = {"model.arch",
                                 "model.hidden",
                                 "model.ffn",
                                 "model.heads",
                                 "model.kv_heads",
                                 "model.vocab",
                                 "model.seq",
                                 "model.recompute",
                                 "mesh.share_devices",
                                 "precision.compute",
                                 "precision.deterministic",
                                 "fp8.recipe",
                                 "fp8.format"};

/// The one of `values` whose name_of() is `name`; nothing if there is none.
template <class T>
std::optional<T> named(std::span<const T> values, std::string_view name) {
  const auto found = std::ranges::find_if(values, [&](T value) { return name_of(value) == name; });
  return found == values.end() ? std::nullopt : std::optional(*found);
}

/// Nothing for an exchange or a method that this program does not have. Throws base::JsonFault or Error(failed) for
/// what is no row.
std::optional<Row> row_of(const Json& json) {
  const auto key = base::json_value<std::string>(json, "key"), method = base::json_value<std::string>(json, "method");
  Row row{.plain_s = base::json_value<double>(json, "plain_s"), .method_s = base::json_value<double>(json, "method_s")};
  if (!(row.plain_s >= 0) || !(row.method_s >= 0))
    base::fail(base::ExitCode::failed, "{} has a time below 0", base::quotable(key));
  const auto chosen = base::json_value<std::string>(json, "chosen");
  if (chosen != "off" && chosen != method)
    base::fail(base::ExitCode::failed, "'{}' of {} is neither off nor {}", base::quotable(chosen), base::quotable(key),
               base::quotable(method));
  row.taken = chosen == method;
  const auto exchange = named<profile::Exchange>(profile::kOverlapKeys, key);
  const auto known = exchange ? named(deck::methods_of(*exchange), method) : std::nullopt;
  if (!known) return std::nullopt;
  row.exchange = *exchange;
  row.method = *known;
  return row;
}

}  // namespace

bool wgrads_add(const Setup& setup) {
  const base::Sharing of_layers;  // the default: sharded over AxisSet::shard
  return setup.fsdp.accumulate && !setup.fsdp.reduces_each(of_layers);
}

profile::Conditions overlap_conditions(const deck::Config& config, profile::Conditions job) {
  profile::Conditions conditions = std::move(job);
  conditions.emplace_back("mesh", text_of(config.mesh.extents()));
  const deck::Layout layout = deck::lay_out(config);
  conditions.emplace_back("micro_batch", fmt::format("{}", layout.micro_batch));
  conditions.emplace_back("accumulate", wgrads_add(Setup::make(config, 0, 1)) ? "true" : "false");
  const auto add = [&](const char* key) { conditions.emplace_back(key, value_text(deck::field_at(key), config)); };
  for (const char* key : kKeys) add(key);
  if (config.model.query_width() != config.model.hidden) add("model.head_dim");  // older files do not have the key
  if (deck::pushes_rows(config)) {
    for (const char* key : {"moe.experts", "moe.experts_per_token", "moe.ffn", "moe.capacity", "moe.dispatch"})
      add(key);
  }
  for (const deck::Field& field : deck::overlap_fields())  // settings of the methods
    if (std::holds_alternative<deck::Access<std::int64_t>>(field.access))
      conditions.emplace_back(fmt::format("overlap.{}", field.key), value_text(field, config));
  return conditions;
}

profile::Measurement overlap_measurement(const profile::Conditions& conditions, const std::vector<Row>& rows) {
  Json keys = Json::array();
  for (const Row& row : rows)
    keys.push_back({{"key", name_of(row.exchange)},
                    {"plain_s", row.plain_s},
                    {"method", name_of(row.method)},
                    {"method_s", row.method_s},
                    {"chosen", name_of(row.chosen())}});
  return {conditions, Json{{"keys", std::move(keys)}}.dump()};
}

std::optional<std::vector<Row>> rows_of(const profile::Measurement& measurement, std::string& reason) {
  try {
    const Json payload = base::parse_json<Json>(measurement.payload);
    return base::in_json(payload, [&] {
      std::vector<Row> rows;
      for (const Json& json : base::json_list(base::json_member(payload, "keys")))
        if (const auto row = row_of(json)) rows.push_back(*row);
      return rows;
    });
  } catch (const base::JsonProblem& e) {
    reason = fmt::format("it is no choice of overlap methods: {}", e.what());
  } catch (const base::Error& e) {
    reason = e.what();
  }
  return std::nullopt;
}

std::optional<std::vector<Row>> rows_that_fit(const profile::Measurement& measurement,
                                              const profile::Conditions& conditions, const std::vector<Row>& wanted,
                                              std::string& reason, std::span<const std::string_view> ignored) {
  if (!fits(measurement.conditions, conditions, kOverlapKind, reason, ignored)) return std::nullopt;
  const auto rows = rows_of(measurement, reason);
  if (!rows) return std::nullopt;
  std::vector<Row> fitting;
  for (const Row& row : wanted) {
    const auto found = std::find_if(rows->begin(), rows->end(),
                                    [&](const Row& r) { return r.exchange == row.exchange && r.method == row.method; });
    if (found == rows->end()) {
      reason = fmt::format("it has no {} with {}", name_of(row.exchange), name_of(row.method));
      return std::nullopt;
    }
    fitting.push_back(*found);
  }
  return fitting;
}

}  // namespace shard8::train
