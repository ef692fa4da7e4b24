// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "app/sizes.hpp"

#include <charconv>
#include <utility>

#include "base/error.hpp"

namespace shard8::app {

std::uint64_t bytes_of(const std::string& text, std::string_view option) {
  constexpr std::pair<std::string_view, double> kUnits[] = {
      {"B", 1},         {"kB", 1e3},           {"MB", 1e6},
      {"GB", 1e9},      {"TB", 1e12},          {"KiB", 1024},
      {"MiB", 1048576}, {"GiB", 1073741824.0}, {"TiB", 1099511627776.0}};
  constexpr double kMost = 1e18;  // fits 64 bits
  double number = 0;
  const char* const last = text.data() + text.size();
  const auto [end, status] = std::from_chars(text.data(), last, number);
  const std::string_view unit(end, static_cast<std::size_t>(last - end));
  for (const auto& [name, bytes] : kUnits)
    if (status == std::errc() && unit == name && number * bytes >= 1 && number * bytes < kMost)
      return static_cast<std::uint64_t>(number * bytes);
  if (status == std::errc() && unit.empty())
    base::fail(base::ExitCode::deck,
               "{}: '{}' has no unit; write {}GiB, or another of B, kB, MB, GB, TB, KiB, MiB and TiB", option, text,
               text);
  base::fail(
      base::ExitCode::deck,
      "{}: '{}' is not a size; expected a positive number and B, kB, MB, GB, TB, KiB, MiB, GiB or TiB, as in 80GiB",
      option, text);
}

}  // namespace shard8::app
