// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "app/option_values.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>

#include "base/text.hpp"

namespace shard8::app {

namespace {

/// The value of the whole text; nothing where it is no value of the type T.
template <class T>
std::optional<T> value_of(std::string_view text) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  T value{};
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string range_of(double low, double high) {
  return std::isfinite(high) ? fmt::format("{} to {}", low, high) : fmt::format("{}", low);
}

}  // namespace

std::string problem_of_number(const std::string& text, double low, double high) {
  const auto value = value_of<double>(text);
  if (value && std::isfinite(*value) && low <= *value && *value <= high) return {};
  return fmt::format("'{}' is not a number from {}", base::quotable(text), range_of(low, high));
}

std::string problem_of_whole(const std::string& text, std::int64_t low, std::int64_t high) {
  const auto value = value_of<std::int64_t>(text);
  if (value && low <= *value && *value <= high) return {};
  return fmt::format("'{}' is not a whole number from {} to {}", base::quotable(text), low, high);
}

CLI::Validator number_from(double low, double high) {
  return {[=](const std::string& text) { return problem_of_number(text, low, high); },
          std::isfinite(high) ? range_of(low, high) : range_of(low, high) + " or more"};
}

CLI::Validator whole_from(std::int64_t low, std::int64_t high) {
  return {[=](const std::string& text) { return problem_of_whole(text, low, high); },
          high < std::numeric_limits<std::int32_t>::max() ? fmt::format("{} to {}", low, high)
                                                          : fmt::format("{} or more", low)};
}

CLI::Validator not_empty() {
  return {[](const std::string& value) { return value.empty() ? "a value is needed" : ""; }, ""};
}

}  // namespace shard8::app
