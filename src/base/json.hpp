// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// Reads JSON that somebody else may have written or damaged. Every problem has the key's place in the document, and no
// text of the JSON library's own.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/text.hpp"

namespace shard8::base {

/// What is wrong with a document: "it has no 'steps.p50_s'", "'phases[2].mean_s' is null, not a number".
class JsonProblem : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What a JSON library's exception says, without the library's name and number of the exception.
inline std::string text_of_json(const nlohmann::json::exception& error) {
  std::string_view text = error.what();
  if (text.starts_with("[json.exception."))
    if (const std::size_t end = text.find("] "); end != std::string_view::npos) text.remove_prefix(end + 2);
  return quotable(text);
}

/// Thrown by json_member() and json_value(); in_json() converts the exception to a JsonProblem.
struct JsonFault {
  const void* value;    ///< the address of the value in its document
  std::string key;      ///< the key that the value lacks; empty: the value itself is wrong
  std::string problem;  ///< "is null, not a number"
};

/// A value for messages. Lists and objects, which may be large, are only called so.
template <class Json>
std::string shown_json(const Json& value) {
  if (value.is_array()) return "a list";
  if (value.is_object()) return "an object";
  return quotable(shortened(value.dump(-1, ' ', false, Json::error_handler_t::replace), 40));
}

template <class Json>
[[noreturn]] void json_is_not(const Json& value, const char* needed) {
  throw JsonFault{&value, {}, fmt::format("is {}, not {}", shown_json(value), needed)};
}

/// The value itself, which must be an object or a list.
template <class Json>
const Json& json_object(const Json& value) {
  if (!value.is_object()) json_is_not(value, "an object");
  return value;
}
template <class Json>
const Json& json_list(const Json& value) {
  if (!value.is_array()) json_is_not(value, "a list");
  return value;
}

/// The value of a key that must be there.
template <class Json>
const Json& json_member(const Json& object, const std::string& key) {
  const auto found = json_object(object).find(key);
  if (found == object.end()) throw JsonFault{&object, key, {}};
  return *found;
}

/// The value at an index of a list.
template <class Json>
const Json& json_element(const Json& list, std::size_t index) {
  if (json_list(list).size() <= index)
    throw JsonFault{&list, {}, fmt::format("has {} elements, not {} or more", list.size(), index + 1)};
  return list[index];
}

/// The value as T: bool, a whole number, double, std::string, or a std::vector of these. A number with a fraction, or
/// beyond the numbers of T, is no whole number.
template <class T, class Json>
T json_value(const Json& value) {
  if constexpr (std::is_same_v<T, bool>) {
    if (!value.is_boolean()) json_is_not(value, "true or false");
    return value.template get<bool>();
  } else if constexpr (std::is_integral_v<T>) {
    const bool fits = value.is_number_unsigned()
                          ? std::in_range<T>(value.template get<std::uint64_t>())
                          : value.is_number_integer() && std::in_range<T>(value.template get<std::int64_t>());
    if (!fits) json_is_not(value, std::is_unsigned_v<T> ? "a whole number from 0" : "a whole number");
    return value.template get<T>();
  } else if constexpr (std::is_floating_point_v<T>) {
    if (!value.is_number()) json_is_not(value, "a number");
    return value.template get<T>();
  } else if constexpr (std::is_same_v<T, std::string>) {
    if (!value.is_string()) json_is_not(value, "a text");
    return value.template get<std::string>();
  } else {
    T values;
    for (const Json& one : json_list(value)) values.push_back(json_value<typename T::value_type>(one));
    return values;
  }
}
template <class T, class Json>
T json_value(const Json& object, const std::string& key) {
  return json_value<T>(json_member(object, key));
}
/// As json_value(), or `otherwise` where the object has no such key.
template <class T, class Json>
T json_value_or(const Json& object, const std::string& key, T otherwise) {
  return json_object(object).contains(key) ? json_value<T>(object, key) : std::move(otherwise);
}

/// The place of a value in its document: "phases[2].mean_s"; empty for the document itself.
template <class Json>
std::string json_place(const Json& document, const void* value) {
  struct Step {
    const Json* value;
    std::size_t before;
    std::string text;
  };
  std::vector<Step> steps{{&document, 0, ""}};
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const Json& here = *steps[i].value;
    if (&here == value) {
      std::string place;
      for (std::size_t at = i; at != 0; at = steps[at].before) place.insert(0, steps[at].text);
      return place.starts_with('.') ? place.substr(1) : place;
    }
    std::size_t n = 0;
    for (auto child = here.begin(); here.is_structured() && child != here.end(); ++child, ++n)
      steps.push_back({&*child, i, here.is_object() ? "." + child.key() : fmt::format("[{}]", n)});
  }
  return {};
}

/// Chosen: more than any file of ours has. The JSON library copies values by recursion, so that a text which is nested
/// more deeply could overflow the stack.
inline constexpr int kDeepestJson = 64;

/// How deeply the lists and objects of a text are nested, as far as kDeepestJson + 1.
inline int depth_of_json(std::string_view text) {
  int depth = 0, most = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size() && most <= kDeepestJson; ++i) {
    const char c = text[i];
    if (in_string && c == '\\')
      ++i;
    else if (c == '"')
      in_string = !in_string;
    else if (!in_string && (c == '[' || c == '{'))
      most = std::max(most, ++depth);
    else if (!in_string && (c == ']' || c == '}'))
      --depth;
  }
  return most;
}

/// Parses a document. Throws JsonProblem with the line and the column, or for one that is nested too deeply.
template <class Json = nlohmann::json>
Json parse_json(std::string_view text) {
  if (depth_of_json(text) > kDeepestJson)
    throw JsonProblem(fmt::format("its values are nested more than {} deep", kDeepestJson));
  try {
    return Json::parse(text);
  } catch (const nlohmann::json::exception& e) {
    throw JsonProblem(text_of_json(e));
  }
}

/// Calls read() and returns its result. read() takes values out of `document` by json_member(), json_value() and the
/// like. What is wrong with one becomes a JsonProblem that names its place in the document.
template <class Json, class Read>
auto in_json(const Json& document, Read&& read) {
  try {
    return read();
  } catch (const JsonFault& fault) {
    const std::string place = json_place(document, fault.value);
    const std::string key = place.empty() || fault.key.empty() ? place + fault.key : place + '.' + fault.key;
    if (!fault.key.empty()) throw JsonProblem(fmt::format("it has no '{}'", quotable(key)));
    throw JsonProblem(place.empty() ? "it " + fault.problem : fmt::format("'{}' {}", quotable(key), fault.problem));
  } catch (const nlohmann::json::exception& e) {
    throw JsonProblem(text_of_json(e));
  }
}

}  // namespace shard8::base
