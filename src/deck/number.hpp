// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace shard8::deck {

/// A value, or why the text is none (may be empty when there is nothing to add).
template <class T>
struct Parsed {
  std::optional<T> value;
  std::string why;
};

/// Decimal digits with a sign in front, the whole text; no leading zeros, underscores or exponents.
Parsed<std::int64_t> parse_integer(std::string_view text);

/// The same without a minus, up to 2^64 - 1.
Parsed<std::uint64_t> parse_unsigned(std::string_view text);

/// A finite decimal number, the whole text, correctly rounded: 5, 1., .5, 1e-3, 1.0d-3 (Fortran).
Parsed<double> parse_real(std::string_view text);

/// true, false, t, f, with or without Fortran's dots, in any case.
Parsed<bool> parse_logical(std::string_view text);

/// The shortest text that parse_real reads back as the same number.
std::string format_real(double value);

}  // namespace shard8::deck
