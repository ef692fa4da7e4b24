// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "profile/measurement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/text.hpp"

namespace shard8::profile {

using Json = nlohmann::ordered_json;

namespace {

/// Chosen: more than any measurement has. The JSON library writes values by recursion, so a text that is nested more
/// deeply could overflow the stack.
constexpr int kDeepest = 32;

Json parse(const std::string& text) {
  return Json::parse(text, [](int depth, Json::parse_event_t, Json&) {
    if (depth > kDeepest) base::fail(base::ExitCode::failed, "its values are nested more than {} deep", kDeepest);
    return true;
  });
}

/// Throws base::JsonFault or Error(failed) for what is no measurement of this kind.
Measurement read(const Json& json, const MeasurementKind& kind) {
  if (const auto format = base::json_value<std::int64_t>(json, "format"); format != kind.format)
    base::fail(base::ExitCode::failed, "its format is {}, and this program reads {}", format, kind.format);
  if (const auto name = base::json_value<std::string>(json, "kind"); name != kind.name)
    base::fail(base::ExitCode::failed, "it is a measurement of '{}', not of '{}'", base::quotable(name), kind.name);
  Measurement measurement;
  for (const auto& [condition, value] : base::json_object(base::json_member(json, "measured_with")).items())
    measurement.conditions.emplace_back(condition, base::json_value<std::string>(value));
  measurement.payload = base::json_member(json, "measured").dump();
  return measurement;
}

bool contains(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

const std::string* value_of(const Conditions& conditions, std::string_view name) {
  const auto found = std::find_if(conditions.begin(), conditions.end(), [&](const auto& c) { return c.first == name; });
  return found == conditions.end() ? nullptr : &found->second;
}

std::string to_text(const Measurement& measurement, const MeasurementKind& kind) {
  Json conditions = Json::object();
  for (const auto& [name, value] : measurement.conditions) conditions[name] = value;
  try {
    const Json json{{"format", kind.format},
                    {"kind", std::string(kind.name)},
                    {"measured_with", std::move(conditions)},
                    {"measured", parse(measurement.payload)}};
    return json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
  } catch (const Json::exception& e) {
    base::fail(base::ExitCode::failed, "a measurement of '{}' is no JSON: {}", kind.name, base::text_of_json(e));
  }
}

std::optional<Measurement> measurement_of_text(const std::string& text, const MeasurementKind& kind,
                                               std::string& reason) {
  try {
    if (text.empty()) base::fail(base::ExitCode::failed, "it is empty");
    const Json json = parse(text);
    return base::in_json(json, [&] { return read(json, kind); });
  } catch (const Json::exception& e) {
    reason = fmt::format("it is no measurement of '{}': {}", kind.name, base::text_of_json(e));
  } catch (const base::JsonProblem& e) {
    reason = fmt::format("it is no measurement of '{}': {}", kind.name, e.what());
  } catch (const base::Error& e) {
    reason = e.what();
  }
  return std::nullopt;
}

bool fits(const Conditions& kept, const Conditions& now, const MeasurementKind& kind, std::string& reason,
          std::span<const std::string_view> ignored) {
  std::vector<std::string_view> names(kind.required.begin(), kind.required.end());
  for (const std::string_view name : names)
    SHARD8_REQUIRE(value_of(now, name) != nullptr, "a measurement of '{}' requires '{}', which is not known here",
                   kind.name, name);
  if (names.empty()) {
    for (const auto& [name, value] : now) names.emplace_back(name);
    for (const auto& [name, value] : kept)
      if (value_of(now, name) == nullptr) names.emplace_back(name);
  }
  const auto shown = [](const std::string* value) {
    return value == nullptr ? std::string("not recorded") : base::quotable(*value);
  };
  for (const std::string_view name : names) {
    if (contains(ignored, name)) continue;
    const std::string *const before = value_of(kept, name), *const after = value_of(now, name);
    if (before != nullptr && after != nullptr && *before == *after) continue;
    reason = fmt::format("{} was {}, and is {} now", base::quotable(name), shown(before), shown(after));
    return false;
  }
  return true;
}

}  // namespace shard8::profile
