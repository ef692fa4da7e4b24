// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "deck/echo.hpp"

#include <fmt/format.h>

#include "deck/fields.hpp"

namespace shard8::deck {
namespace {

Origin origin_of(const Reading& reading, const std::string& path) {
  const auto at = reading.values.find(path);
  if (at == reading.values.end()) return Origin::fallback;
  return at->second.source == 0 ? Origin::deck : Origin::command_line;
}

}  // namespace

std::string_view to_string(Origin origin) {
  switch (origin) {
    case Origin::deck:
      return "deck";
    case Origin::command_line:
      return "command line";
    default:
      return "default";
  }
}

std::string value_text(const Echo& echo) {
  return std::visit([](const auto& value) { return fmt::format("{}", value); }, echo.value);
}

std::vector<Echo> make_echo(const Reading& reading) {
  std::vector<Echo> all;
  Config config = reading.config;
  for (const Group& group : all_groups()) {
    for (const Field& field : group.fields) {
      Echo echo{std::string(group.name), std::string(field.key), {}, {}};
      echo.origin = origin_of(reading, fmt::format("{}.{}", group.name, field.key));
      std::visit(
          [&](const auto& get) {
            if constexpr (std::is_same_v<std::remove_cvref_t<decltype(get)>, ChoiceAccess>) {
              echo.value = value_text(field, config);
            } else {
              echo.value = get(config);
            }
          },
          field.access);
      all.push_back(std::move(echo));
    }
  }
  return all;
}

std::string to_yaml(const Config& config) {
  std::string text;
  for (const Group& group : all_groups()) {
    text += fmt::format("{}:\n", group.name);
    for (const Field& field : group.fields) {
      text += fmt::format("  {}: {}\n", field.key, spelled(field, config, Spelling::yaml));
    }
  }
  return text;
}

std::string to_namelist(const Config& config) {
  std::string text;
  for (const Group& group : all_groups()) {
    text += fmt::format("&{}\n", group.name);
    for (const Field& field : group.fields) {
      text += fmt::format("  {} = {}\n", field.key, spelled(field, config, Spelling::namelist));
    }
    text += "/\n";
  }
  return text;
}

std::string to_deck(const Reading& reading, Spelling spelling) {
  const bool yaml = spelling == Spelling::yaml;
  std::string text;
  for (const Group& group : all_groups()) {
    std::string keys;
    for (const Field& field : group.fields)
      if (reading.given(fmt::format("{}.{}", group.name, field.key)))
        keys += fmt::format("  {}{} {}\n", field.key, yaml ? ":" : " =", spelled(field, reading.config, spelling));
    if (keys.empty()) continue;
    text += yaml ? fmt::format("{}{}:\n{}", text.empty() ? "" : "\n", group.name, keys)
                 : fmt::format("{}&{}\n{}/\n", text.empty() ? "" : "\n", group.name, keys);
  }
  return text;
}

}  // namespace shard8::deck
