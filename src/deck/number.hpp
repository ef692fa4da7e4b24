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

/// Parses true, false, t, f, with or without Fortran's dots, in any case.
Parsed<bool> parse_logical(std::string_view text);

/// The shortest text that parse_real reads back as the same number.
std::string format_real(double value);

}  // namespace shard8::deck
