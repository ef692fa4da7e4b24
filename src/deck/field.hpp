// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include "deck/choices.hpp"
#include "deck/config.hpp"

namespace shard8::deck {

/// The member of a Config that a key sets.
template <class T>
using Access = T& (*)(Config&);

struct ChoiceAccess {
  int (*get)(const Config&);
  void (*set)(Config&, int);
  std::span<const std::string_view> names;  ///< in the order of the enumeration
};

using Slot = std::variant<Access<std::int64_t>, Access<std::uint64_t>, Access<double>, Access<bool>,
                          Access<std::string>, ChoiceAccess>;

template <auto group, auto member>
constexpr Slot slot() {
  using T = std::remove_cvref_t<decltype(std::declval<Config&>().*group.*member)>;
  if constexpr (std::is_enum_v<T>) {
    return ChoiceAccess{[](const Config& config) { return static_cast<int>(config.*group.*member); },
                        [](Config& config, int value) { config.*group.*member = static_cast<T>(value); },
                        Choices<T>::names};
  } else {
    return Access<T>{[](Config& config) -> T& { return config.*group.*member; }};
  }
}

/// What a number may be; integers are at most kMostInteger in any case.
struct Bounds {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool open_low = false;   ///< low itself is not allowed
  bool open_high = false;  ///< high itself is not allowed
  bool or_zero = false;    ///< zero is allowed, too

  bool hold(double value) const {
    if (or_zero && value == 0) return true;
    return (open_low ? value > low : value >= low) && (open_high ? value < high : value <= high);
  }
};

/// Products of two such numbers fit 64 bits.
inline constexpr std::int64_t kMostInteger = 2147483647;

constexpr Bounds at_least(double low) { return {.low = low}; }
constexpr Bounds above(double low) { return {.low = low, .open_low = true}; }
constexpr Bounds from_to(double low, double high) { return {.low = low, .high = high}; }
/// Of numbers that FP32 holds: what is nearer to zero is zero there, what is larger is infinite.
inline constexpr double kLeastFloat = 1.2e-38, kMostFloat = 3.4e38;
constexpr Bounds positive_float() { return from_to(kLeastFloat, kMostFloat); }
constexpr Bounds zero_or_positive_float() { return {.low = kLeastFloat, .high = kMostFloat, .or_zero = true}; }
constexpr Bounds float_from(double low) { return from_to(low, kMostFloat); }
constexpr Bounds from_below(double low, double high) { return {.low = low, .high = high, .open_high = true}; }

/// One key of a deck.
struct Field {
  std::string_view key;
  Slot slot;
  Bounds bounds = {};
  bool required = false;
  bool not_empty = false;              ///< for text
  std::string_view default_note = {};  ///< in place of the value where it depends on other keys
  std::string_view unit = {};
  std::string_view help;
};

struct Group {
  std::string_view name;
  std::string_view help;
  std::span<const Field> fields;
};

/// "an integer >= 1", "llama or gpt2", ...: what may be written for a key.
std::string expected(const Field& field);

/// "none, selective or full".
std::string list_of(std::span<const std::string_view> names, std::string_view last = "or");

/// The value that a Config has for a key, as it is written in a deck, without quotes.
std::string value_text(const Field& field, const Config& config);

enum class Spelling { yaml, namelist };

/// The same with the quotes that the spelling wants.
std::string spelled(const Field& field, const Config& config, Spelling spelling);

/// The default as YAML spells it, or what it depends on; not for required keys.
std::string default_text(const Field& field);

}  // namespace shard8::deck
