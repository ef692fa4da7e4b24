// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace shard8::deck {

/// A value, or, without a value, the reason why the text is none; the reason may be empty.
template <class T>
struct Parsed {
  std::optional<T> value;
  std::string why;
};

/// Parses the whole text as decimal digits with an optional sign; no leading zeros, underscores or exponents.
Parsed<std::int64_t> parse_integer(std::string_view text);

/// Parses the whole text as an integer from 0 to 2^64 - 1, written as for parse_integer.
Parsed<std::uint64_t> parse_unsigned(std::string_view text);

/// Parses the whole text as a finite decimal number, correctly rounded: 5, 1., .5, 1e-3, 1.0d-3 (Fortran). No leading
/// zeros and no underscores.
Parsed<double> parse_real(std::string_view text);

/// As parse_real, times 10^power, correctly rounded: the text 540.1 with -6 is the number 540.1e-6.
Parsed<double> parse_scaled(std::string_view text, int power);

/// Parses a size, a positive number and its unit, as whole bytes below 10^18: 80GiB, 1.5MB. Units are
/// those of size_units().
Parsed<std::uint64_t> parse_size(std::string_view text);
/// "B, kB, ... and TiB", with `last` before the last one.
std::string size_units(std::string_view last);

/// Parses true, false, t, f, with or without Fortran's dots, in any case.
Parsed<bool> parse_logical(std::string_view text);

/// The shortest text that parse_real reads back as the same number.
std::string format_real(double value);

/// The shortest text that parse_scaled reads back as the same number: format_scaled(540.1e-6, -6) is "540.1".
std::string format_scaled(double value, int power);

/// The text of a whole number of bytes in the largest unit that has no fraction; parse_size reads it back.
std::string format_size(std::uint64_t bytes);

}  // namespace shard8::deck
