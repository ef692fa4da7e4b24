// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "deck/field.hpp"

#include <fmt/format.h>

#include "deck/number.hpp"

namespace shard8::deck {
namespace {

bool is_finite(double bound) { return bound - bound == 0.0; }

std::string bounds_text(const Bounds& bounds) {
  if (is_finite(bounds.low) && is_finite(bounds.high) && !bounds.open_low && !bounds.open_high) {
    return fmt::format("{} from {} to {}", bounds.or_zero ? ", 0 or" : "", bounds.low, bounds.high);
  }
  std::string text;
  if (is_finite(bounds.low)) text += fmt::format(" {} {}", bounds.open_low ? ">" : ">=", bounds.low);
  if (is_finite(bounds.high)) {
    text += fmt::format("{} {} {}", text.empty() ? "" : " and", bounds.open_high ? "<" : "<=", bounds.high);
  }
  return text;
}

// In single quotes, doubled inside: the same in YAML and in namelists.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') out += c;
    out += c;
  }
  return out + "'";
}

}  // namespace

std::string list_of(std::span<const std::string_view> names, std::string_view last) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 < names.size() ? ", " : fmt::format(" {} ", last);
    text += names[i];
  }
  return text;
}

std::string expected(const Field& field) {
  const std::string bounds = bounds_text(field.bounds);
  switch (field.slot.index()) {
    case 0:
      return "an integer" + bounds;
    case 1:
      return "an unsigned integer";
    case 2:
      return "a real number" + bounds;
    case 3:
      return "true or false";
    case 4:
      return field.not_empty ? "a text, not empty" : "a text";
    default:
      return list_of(std::get<ChoiceAccess>(field.slot).names);
  }
}

std::string value_text(const Field& field, const Config& config) {
  // The table's functions give references to change; a copy is changed by nobody.
  Config copy = config;
  return std::visit(
      [&](const auto& get) -> std::string {
        using T = std::remove_cvref_t<decltype(get)>;
        if constexpr (std::is_same_v<T, ChoiceAccess>) {
          return std::string(get.names[static_cast<std::size_t>(get.get(config))]);
        } else if constexpr (std::is_same_v<T, Access<double>>) {
          return format_real(get(copy));
        } else {
          return fmt::format("{}", get(copy));
        }
      },
      field.slot);
}

std::string spelled(const Field& field, const Config& config, Spelling spelling) {
  const std::string value = value_text(field, config);
  const bool text = std::holds_alternative<Access<std::string>>(field.slot);
  const bool choice = std::holds_alternative<ChoiceAccess>(field.slot);
  return text || (choice && spelling == Spelling::namelist) ? quoted(value) : value;
}

std::string default_text(const Field& field) {
  if (!field.default_note.empty()) return std::string(field.default_note);
  return spelled(field, Config{}, Spelling::yaml);
}

}  // namespace shard8::deck
