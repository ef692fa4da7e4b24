// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// For test programs of their own that run for hours and go on where they stopped.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <vector>

namespace shard8::test {

/// Reads the number that a program's option is given. Returns false unless the whole text is a number.
template <class T>
bool parse(std::string_view text, T& value) {
  const char* const end_of_text = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), end_of_text, value);
  return error == std::errc() && end == end_of_text;
}

/// An option of a program.
struct Option {
  std::string_view name;
  std::function<bool(const char* text)> read;  ///< takes the value; returns whether the option may have it
  bool has_value = true;                       ///< false: `read` is called with null
};
/// An option with a number of at least `least`.
template <class T>
Option number(std::string_view name, T& value, std::type_identity_t<T> least = std::numeric_limits<T>::min()) {
  return {name, [&value, least](const char* text) { return parse(text, value) && value >= least; }};
}
inline Option path(std::string_view name, std::filesystem::path& value) {
  return {name, [&value](const char* text) {
            value = text;
            return true;
          }};
}
/// An option without a value, which sets `value`.
inline Option flag(std::string_view name, bool& value) {
  return {name, [&value](const char*) { return value = true; }, false};
}
/// Reads the arguments of a program. Returns false if an option is not known, lacks its value or may not have it.
inline bool parse_options(int argc, char** argv, const std::vector<Option>& options) {
  for (int i = 1; i < argc; ++i) {
    const auto option = std::ranges::find(options, std::string_view(argv[i]), &Option::name);
    if (option == options.end() || (option->has_value && ++i == argc)) return false;
    if (!option->read(option->has_value ? argv[i] : nullptr)) return false;
  }
  return true;
}

/// The same for all runs that may go on from each other's state: those with the same seed and the same program.
inline std::string run_key(std::uint64_t seed) {
  const auto time = std::filesystem::last_write_time(std::filesystem::canonical("/proc/self/exe")).time_since_epoch();
  return fmt::format("seed {}, program of {}", seed, time.count());
}

}  // namespace shard8::test
