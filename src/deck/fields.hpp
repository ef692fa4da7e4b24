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

/// Returns the member of a Config that a key sets.
template <class T>
using Access = T& (*)(Config&);

/// Reads and sets the member of a Config that is an enumeration, as the number of its value.
struct ChoiceAccess {
  int (*get)(const Config&);
  void (*set)(Config&, int);
  std::span<const std::string_view> names;  ///< in the order of the enumeration
};

/// How a key's value is read and set. The alternative is the type of the value.
using FieldAccess = std::variant<Access<std::int64_t>, Access<std::uint64_t>, Access<double>, Access<bool>,
                                 Access<std::string>, ChoiceAccess>;

/// The member of a Config to which `members` lead: &Config::model, &ModelConfig::hidden.
template <auto... members>
constexpr auto& member_of(auto& config) {
  return (config.*....*members);
}

/// How member_of<members...>() is read and set.
template <auto... members>
constexpr FieldAccess access() {
  using T = std::remove_cvref_t<decltype(member_of<members...>(std::declval<Config&>()))>;
  if constexpr (std::is_enum_v<T>) {
    return ChoiceAccess{[](const Config& config) { return static_cast<int>(member_of<members...>(config)); },
                        [](Config& config, int value) { member_of<members...>(config) = static_cast<T>(value); },
                        Choices<T>::names};
  } else {
    return Access<T>{[](Config& config) -> T& { return member_of<members...>(config); }};
  }
}

/// The values that a number may have: from low to high, both included unless open. Integers are also at most
/// kMostInteger.
struct Bounds {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool open_low = false;   ///< low itself is not allowed
  bool open_high = false;  ///< high itself is not allowed
  bool or_zero = false;    ///< zero is also allowed

  bool hold(double value) const {
    if (or_zero && value == 0) return true;
    return (open_low ? value > low : value >= low) && (open_high ? value < high : value <= high);
  }
};

/// The bounds behind the name of a type in a message: " >= 1", " from 0 to 1"; empty for none.
std::string text_of(const Bounds& bounds);

/// The largest integer in a deck. Products of two such numbers fit 64 bits.
inline constexpr std::int64_t kMostInteger = 2147483647;

constexpr Bounds at_least(double low) { return {.low = low}; }
constexpr Bounds above(double low) { return {.low = low, .open_low = true}; }
constexpr Bounds from_to(double low, double high) { return {.low = low, .high = high}; }
/// The positive numbers that FP32 holds: a smaller one would become zero or lose digits, a larger one infinite.
inline constexpr double kLeastFloat = 1.2e-38, kMostFloat = 3.4e38;
constexpr Bounds positive_float() { return from_to(kLeastFloat, kMostFloat); }
constexpr Bounds zero_or_positive_float() { return {.low = kLeastFloat, .high = kMostFloat, .or_zero = true}; }
constexpr Bounds float_from(double low) { return from_to(low, kMostFloat); }
/// Bounds from low, included, to high, not included.
constexpr Bounds from_below(double low, double high) { return {.low = low, .high = high, .open_high = true}; }

/// One key of a deck.
struct Field {
  std::string_view key;
  FieldAccess access;
  Bounds bounds = {};
  bool required = false;
  std::string_view instead = {};       ///< a key of the group that may be given in place of this required one
  bool not_empty = false;              ///< for text: the empty text is not allowed
  bool automatic = false;              ///< for an integer: the word auto is allowed, too, and read as 0
  std::string_view default_note = {};  ///< describes the default where it depends on other keys
  std::string_view unit = {};
  std::string_view help;
};

struct Group {
  std::string_view name;
  std::string_view help;
  std::span<const Field> fields;
};

/// A text for messages: the values that are allowed for a key, "an integer >= 1", "llama or gpt2", ...
std::string expected(const Field& field);

/// The names as a list for a message, with `last` before the last one: "none, selective or full".
std::string list_of(std::span<const std::string_view> names, std::string_view last = "or");

/// A key's value in a Config, as a deck spells it, without quotes.
std::string value_text(const Field& field, const Config& config);

/// What a table says in place of a default: "required", or "required without KEY" if another key may stand for it.
std::string required_text(const Field& field);

enum class Spelling { yaml, namelist };

/// A key's value in a Config, with the quotes that the spelling needs.
std::string spelled(const Field& field, const Config& config, Spelling spelling);

/// The default as YAML spells it, or what the default depends on. The key must not be a required one.
std::string default_text(const Field& field);

/// The table: every group and key that a deck may have, in the order in which they are printed.
std::span<const Group> all_groups();

/// nullptr if there is no group or key of that name.
const Group* find_group(std::string_view name);
const Field* find_field(const Group& group, std::string_view key);

/// The field of "model.hidden". Throws std::logic_error for a name that is not in the table.
const Field& field_at(std::string_view path);

// The groups' fields: model, moe, mesh, precision and fp8 in fields_model.cpp, the others in fields_training.cpp.
std::span<const Field> model_fields();
std::span<const Field> moe_fields();
std::span<const Field> mesh_fields();
std::span<const Field> precision_fields();
std::span<const Field> fp8_fields();
std::span<const Field> fsdp_fields();
std::span<const Field> overlap_fields();
std::span<const Field> optimizer_fields();
std::span<const Field> data_fields();
std::span<const Field> run_fields();
std::span<const Field> checkpoint_fields();
std::span<const Field> verify_fields();
std::span<const Field> output_fields();

/// The candidate that a misspelt word probably means: the one at the least distance, if that is at most a third of the
/// longer word's length. Empty if there is none, or the word has more than 64 letters. Distance is the number of
/// inserted, deleted, replaced and swapped letters (optimal string alignment), ignoring case.
std::string_view nearest(std::string_view word, std::span<const std::string_view> candidates);

/// The text that `shard8 deck` prints: every key with type, default, bounds, unit and meaning. With format "yaml" or
/// "nml" the text is a deck to be filled in, of one group or (empty name) of all groups; a comment above each key
/// explains the key. With format "markdown" the text is the page docs/deck.md, always of all groups. With format
/// "schema" the text is a JSON schema (draft 2020-12) of YAML decks, always of all groups. Throws base::Error(deck) for
/// another format or an unknown group.
std::string print_table(std::string_view format, std::string_view group = {});

}  // namespace shard8::deck
