// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/overlap_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/text.hpp"
#include "deck/fields.hpp"
#include "deck/layout.hpp"

namespace shard8::bench {

using Json = nlohmann::ordered_json;
using Row = profile::OverlapChoice::Row;

namespace {

constexpr int kFormat = 1;

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

/// An error of nlohmann::json becomes an Error(failed).
template <class Function>
auto reading(Function&& function) {
  try {
    return function();
  } catch (const Json::exception& e) {
    base::fail(base::ExitCode::failed, "it is no plan of overlap methods: {}", base::quotable(e.what()));
  }
}

Row row_of(const Json& json) {
  Row row{.key = json.at("key").get<std::string>(), .method = json.at("method").get<std::string>()};
  row.plain_s = json.at("plain_s").get<double>();
  row.method_s = json.at("method_s").get<double>();
  const auto chosen = json.at("chosen").get<std::string>();
  if (chosen != "off" && chosen != row.method)
    base::fail(base::ExitCode::failed, "'{}' of {} is neither off nor {}", base::quotable(chosen),
               base::quotable(row.key), base::quotable(row.method));
  row.taken = chosen == row.method;
  return row;
}

std::string value_of(const OverlapConditions& conditions, const std::string& name) {
  for (const auto& [n, value] : conditions)
    if (n == name) return value;
  return "not there";
}

}  // namespace

OverlapConditions overlap_conditions(const deck::Config& config, const std::string& machine) {
  OverlapConditions conditions{{"machine", machine}};
  conditions.emplace_back("mesh",
                          fmt::format("{} x {} x {}", config.mesh.replicate, config.mesh.shard, config.mesh.tensor));
  const deck::Layout layout = deck::lay_out(config);
  conditions.emplace_back("micro_batch", fmt::format("{}", layout.micro_batch));
  conditions.emplace_back("accumulate", layout.micro_batches > 1 ? "true" : "false");
  for (const char* key : kKeys) conditions.emplace_back(key, value_text(deck::field_at(key), config));
  for (const deck::Field& field : deck::overlap_fields())  // settings of the methods
    if (std::holds_alternative<deck::Access<std::int64_t>>(field.slot))
      conditions.emplace_back(fmt::format("overlap.{}", field.key), value_text(field, config));
  return conditions;
}

std::string to_text(const OverlapPlan& plan) {
  Json conditions = Json::object(), keys = Json::array();
  for (const auto& [name, value] : plan.conditions) conditions[name] = value;
  for (const Row& row : plan.rows)
    keys.push_back({{"key", row.key},
                    {"plain_s", row.plain_s},
                    {"method", row.method},
                    {"method_s", row.method_s},
                    {"chosen", row.chosen()}});
  const Json json{{"format", kFormat}, {"measured_with", std::move(conditions)}, {"keys", std::move(keys)}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

OverlapPlan overlap_plan_of_text(const std::string& text) {
  return reading([&] {
    const Json json = Json::parse(text);
    if (const auto format = json.at("format").get<int>(); format != kFormat)
      base::fail(base::ExitCode::failed, "its format is {}, and this program reads {}", format, kFormat);
    OverlapPlan plan;
    for (const auto& [name, value] : json.at("measured_with").items())
      plan.conditions.emplace_back(name, value.get<std::string>());
    for (const Json& row : json.at("keys")) plan.rows.push_back(row_of(row));
    return plan;
  });
}

std::optional<std::vector<Row>> rows_that_fit(const OverlapPlan& plan, const OverlapConditions& conditions,
                                              const std::vector<Row>& rows, std::string& reason) {
  for (const auto& [name, value] : conditions) {
    const std::string there = value_of(plan.conditions, name);
    if (there == value) continue;
    reason = fmt::format("{} was {}, and is {} now", name, base::quotable(there), base::quotable(value));
    return std::nullopt;
  }
  std::vector<Row> fitting;
  for (const Row& wanted : rows) {
    const auto found = std::find_if(plan.rows.begin(), plan.rows.end(), [&](const Row& row) {
      return row.key == wanted.key && row.method == wanted.method;
    });
    if (found == plan.rows.end()) {
      reason = fmt::format("it has no {} with {}", wanted.key, wanted.method);
      return std::nullopt;
    }
    fitting.push_back(*found);
  }
  return fitting;
}

}  // namespace shard8::bench
