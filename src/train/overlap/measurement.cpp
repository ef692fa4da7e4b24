// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "train/overlap/measurement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"
#include "deck/fields.hpp"
#include "deck/layout.hpp"
#include "deck/overlap.hpp"

namespace shard8::train {

using Json = nlohmann::ordered_json;
using Row = profile::OverlapChoice::Row;

namespace {

/// The keys of the deck on which the shapes and dtypes of products and exchanges depend, beside tokens and mesh.
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

/// Nothing for an exchange or a method that this program does not have. Throws Json::exception or Error(failed) for
/// what is no row.
std::optional<Row> row_of(const Json& json) {
  const auto key = json.at("key").get<std::string>(), method = json.at("method").get<std::string>();
  Row row{.plain_s = json.at("plain_s").get<double>(), .method_s = json.at("method_s").get<double>()};
  if (!(row.plain_s >= 0) || !(row.method_s >= 0))
    base::fail(base::ExitCode::failed, "{} has a time below 0", base::quotable(key));
  const auto chosen = json.at("chosen").get<std::string>();
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

profile::Conditions overlap_conditions(const deck::Config& config, profile::Conditions job) {
  profile::Conditions conditions = std::move(job);
  conditions.emplace_back("mesh", text_of(config.mesh.extents()));
  const deck::Layout layout = deck::lay_out(config);
  conditions.emplace_back("micro_batch", fmt::format("{}", layout.micro_batch));
  conditions.emplace_back("accumulate", layout.micro_batches > 1 ? "true" : "false");
  for (const char* key : kKeys) conditions.emplace_back(key, value_text(deck::field_at(key), config));
  for (const deck::Field& field : deck::overlap_fields())  // settings of the methods
    if (std::holds_alternative<deck::Access<std::int64_t>>(field.slot))
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
    const Json payload = Json::parse(measurement.payload);
    const Json& keys = payload.at("keys");
    if (!keys.is_array()) base::fail(base::ExitCode::failed, "its keys are no list");
    std::vector<Row> rows;
    for (const Json& json : keys)
      if (const auto row = row_of(json)) rows.push_back(*row);
    return rows;
  } catch (const Json::exception& e) {
    reason = fmt::format("it is no choice of overlap methods: {}", base::quotable(e.what()));
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
