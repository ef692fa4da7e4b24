// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "deck/schema.hpp"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "deck/fields.hpp"

namespace shard8::deck {
namespace {

using Json = nlohmann::ordered_json;

Json number(double value, bool integer) { return integer ? Json(static_cast<std::int64_t>(value)) : Json(value); }

void add_bounds(Json& schema, const Bounds& bounds, bool integer) {
  if (std::isfinite(bounds.low)) schema[bounds.open_low ? "exclusiveMinimum" : "minimum"] = number(bounds.low, integer);
  if (std::isfinite(bounds.high))
    schema[bounds.open_high ? "exclusiveMaximum" : "maximum"] = number(bounds.high, integer);
  else if (integer)
    schema["maximum"] = kMostInteger;
}

/// The value of a deck's key as JSON.
struct Default {
  const Config config{};
  Json operator()(const ChoiceAccess& member) const {
    return std::string(member.names[static_cast<std::size_t>(member.get(config))]);
  }
  template <class T>
  Json operator()(Access<T> member) const {
    Config copy = config;
    return Json(member(copy));
  }
};

Json schema_of(const Field& field) {
  constexpr const char* kTypes[] = {"integer", "integer", "number", "boolean", "string", "string"};
  const std::size_t kind = field.slot.index();
  Json schema{{"type", kTypes[kind]}};
  if (const auto* choice = std::get_if<ChoiceAccess>(&field.slot)) {
    schema["enum"] = Json::array();
    for (const std::string_view name : choice->names) schema["enum"].push_back(std::string(name));
  }
  if (kind == 1) schema["minimum"] = 0;
  if (field.not_empty) schema["minLength"] = 1;
  if (kind == 0 || kind == 2) {
    Json bounds = Json::object();
    add_bounds(bounds, field.bounds, kind == 0);
    if (field.automatic) {
      schema.erase("type");
      bounds["type"] = "integer";
      schema["anyOf"] = {Json{{"const", "auto"}}, bounds};
    } else if (field.bounds.or_zero)
      schema["anyOf"] = {Json{{"const", 0}}, bounds};
    else
      schema.update(bounds);
  }
  std::string description(field.help);
  if (!field.unit.empty()) description += fmt::format(" [{}]", field.unit);
  if (!field.default_note.empty()) description += fmt::format(" (default: {})", field.default_note);
  schema["description"] = description;
  if (!field.required && field.default_note.empty()) schema["default"] = std::visit(Default{}, field.slot);
  return schema;
}

}  // namespace

std::string json_schema() {
  Json schema{{"$schema", "https://json-schema.org/draft/2020-12/schema"}, {"title", "a deck of shard8"}};
  schema["type"] = "object";
  schema["additionalProperties"] = false;
  Json groups = Json::object(), required_groups = Json::array();
  for (const Group& group : all_groups()) {
    Json keys = Json::object(), required = Json::array();
    std::vector<std::string_view> either;  // of two keys one is needed
    for (const Field& field : group.fields) {
      keys[std::string(field.key)] = schema_of(field);
      if (field.required && field.instead.empty()) required.push_back(std::string(field.key));
      if (!field.instead.empty()) either = {field.key, field.instead};
    }
    Json one{{"type", "object"}, {"description", std::string(group.help)}, {"additionalProperties", false}};
    if (!required.empty()) {
      one["required"] = required;
      required_groups.push_back(std::string(group.name));
    }
    for (const std::string_view key : either) one["anyOf"].push_back({{"required", Json::array({std::string(key)})}});
    one["properties"] = std::move(keys);
    groups[std::string(group.name)] = std::move(one);
  }
  schema["required"] = std::move(required_groups);
  schema["properties"] = std::move(groups);
  return schema.dump(2) + '\n';
}

}  // namespace shard8::deck
