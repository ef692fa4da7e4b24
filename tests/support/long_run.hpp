// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// For test programs of their own that run for hours and go on where they stopped.
#pragma once

#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

namespace shard8::test {

/// Reads the number that a program's option is given. Returns false unless the whole text is a number.
template <class T>
bool parse(std::string_view text, T& value) {
  const char* const end_of_text = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), end_of_text, value);
  return error == std::errc() && end == end_of_text;
}

/// The same for all runs that may go on from each other's state: those with the same seed and the same program.
inline std::string run_key(std::uint64_t seed) {
  const auto time = std::filesystem::last_write_time(std::filesystem::canonical("/proc/self/exe")).time_since_epoch();
  return fmt::format("seed {}, program of {}", seed, time.count());
}

}  // namespace shard8::test
