// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "deck/number.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <system_error>
#include <utility>

namespace shard8::deck {
namespace {

constexpr std::int64_t kMostExponent = 1000000;  // beyond every double; chosen

constexpr std::pair<std::string_view, double> kUnits[] = {{"TiB", 1099511627776.0},
                                                          {"TB", 1e12},
                                                          {"GiB", 1073741824.0},
                                                          {"GB", 1e9},
                                                          {"MiB", 1048576.0},
                                                          {"MB", 1e6},
                                                          {"KiB", 1024},
                                                          {"kB", 1e3},
                                                          {"B", 1}};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

std::size_t digits_at(std::string_view text, std::size_t begin) {
  std::size_t n = 0;
  while (begin + n < text.size() && is_digit(text[begin + n])) ++n;
  return n;
}

// The parts of the longest number at the start of a text.
struct Shape {
  std::size_t sign = 0;      // characters
  std::size_t whole = 0;     // digits before the point
  std::size_t fraction = 0;  // digits after it
  bool point = false;
  std::size_t exponent = 0;  // characters, letter included
  std::size_t size = 0;      // characters of the whole number

  bool is_integer() const { return whole > 0 && !point && exponent == 0; }
  bool is_number() const { return whole + fraction > 0; }
};

Shape shape_of(std::string_view text) {
  Shape s;
  s.sign = !text.empty() && (text[0] == '+' || text[0] == '-') ? 1 : 0;
  s.whole = digits_at(text, s.sign);
  s.size = s.sign + s.whole;
  if (s.size < text.size() && text[s.size] == '.') {
    s.fraction = digits_at(text, s.size + 1);
    s.point = s.whole + s.fraction > 0;
    if (s.point) s.size += 1 + s.fraction;
  }
  if (s.is_number() && s.size < text.size() && std::string_view("eEdD").find(text[s.size]) != std::string_view::npos) {
    std::size_t at = s.size + 1;
    if (at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
    if (const std::size_t n = digits_at(text, at); n > 0) s.exponent = at + n - s.size;
    s.size += s.exponent;
  }
  return s;
}

// The reason why a text is not one plain number; empty if it is one.
std::string bad_spelling(std::string_view text, const Shape& s) {
  const std::string low = lower(text.substr(s.sign));
  if (low.find("nan") == 0 || low.find("inf") == 0 || low.find(".nan") == 0 || low.find(".inf") == 0) {
    return "it must be finite";
  }
  if (!s.is_number()) return "it does not begin with a number";
  if (low.find("0x") == 0 || low.find("0o") == 0 || low.find("0b") == 0) {
    return "only decimal digits are allowed";
  }
  if (s.size < text.size() && text[s.size] == '_') return "'_' is not allowed between digits";
  if (s.size < text.size()) {
    return fmt::format("'{}' follows the number '{}'", text.substr(s.size), text.substr(0, s.size));
  }
  if (s.whole > 1 && text[s.sign] == '0') return "a leading zero is not allowed";
  return {};
}

template <class T>
Parsed<T> parse_whole_number(std::string_view text) {
  const Shape shape = shape_of(text);
  if (std::string why = bad_spelling(text, shape); !why.empty()) return {{}, why};
  if (!shape.is_integer()) return {{}, "it is a real number"};
  if (text[0] == '+') text.remove_prefix(1);
  T value{};
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status == std::errc::result_out_of_range) return {{}, "it has too many digits"};
  if (status != std::errc() || end != text.data() + text.size()) return {{}, "it is negative"};
  return {value, {}};
}

}  // namespace

Parsed<std::int64_t> parse_integer(std::string_view text) { return parse_whole_number<std::int64_t>(text); }

Parsed<std::uint64_t> parse_unsigned(std::string_view text) { return parse_whole_number<std::uint64_t>(text); }

Parsed<double> parse_real(std::string_view text) { return parse_scaled(text, 0); }

Parsed<double> parse_scaled(std::string_view text, int power) {
  const Shape shape = shape_of(text);
  if (std::string why = bad_spelling(text, shape); !why.empty()) return {{}, why};
  std::string plain = lower(text);
  std::replace(plain.begin(), plain.end(), 'd', 'e');
  if (plain[0] == '+') plain.erase(0, 1);
  if (power != 0) {
    const auto e = plain.find('e');
    std::int64_t exponent = 0;
    if (e != std::string::npos) {
      const char* const digits = plain.data() + e + (plain[e + 1] == '+' ? 2 : 1);
      const auto [end, status] = std::from_chars(digits, plain.data() + plain.size(), exponent);
      if (status != std::errc()) return {{}, "it is beyond double precision"};
    }
    plain = fmt::format("{}e{}", plain.substr(0, e),
                        std::clamp<std::int64_t>(exponent, -kMostExponent, kMostExponent) + power);
  }
  double value = 0.0;
  const auto [end, status] = std::from_chars(plain.data(), plain.data() + plain.size(), value);
  if (status == std::errc::result_out_of_range) return {{}, "it is beyond double precision"};
  if (status != std::errc() || end != plain.data() + plain.size()) return {{}, {}};
  return {value, {}};
}

std::string size_units(std::string_view last) { return fmt::format("B, kB, MB, GB, TB, KiB, MiB, GiB {} TiB", last); }

Parsed<std::uint64_t> parse_size(std::string_view text) {
  constexpr double kMost = 1e18;  // fits 64 bits
  const std::size_t end = shape_of(text).size;
  const std::string_view unit = text.substr(end);
  const auto number = parse_real(text.substr(0, end));
  if (!number.value) return {{}, number.why};
  if (unit.empty()) return {{}, fmt::format("it has no unit, one of {}", size_units("and"))};
  for (const auto& [name, bytes] : kUnits) {
    if (unit != name) continue;
    const double size = *number.value * bytes;
    if (size < 1 || size >= kMost) return {{}, "it is not from 1B to below 10^18 bytes"};
    return {static_cast<std::uint64_t>(size), {}};
  }
  return {{}, fmt::format("its unit '{}' is none of {}", unit, size_units("and"))};
}

Parsed<bool> parse_logical(std::string_view text) {
  const std::string low = lower(text);
  for (const char* yes : {"true", "t", ".true.", ".t."}) {
    if (low == yes) return {true, {}};
  }
  for (const char* no : {"false", "f", ".false.", ".f."}) {
    if (low == no) return {false, {}};
  }
  return {};
}

std::string format_real(double value) {
  std::array<char, 32> buffer{};
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  std::string text(buffer.data(), result.ptr);
  const auto e = text.find('e');
  if (e == std::string::npos) return text;
  // "1e-05" becomes "1e-5", "1e+22" becomes "1e22".
  std::size_t digits = e + 1;
  const bool negative = text[digits] == '-';
  if (negative || text[digits] == '+') ++digits;
  const auto first = text.find_first_not_of('0', digits);
  return text.substr(0, e + 1) + (negative ? "-" : "") + text.substr(first);
}

std::string format_scaled(double value, int power) {
  if (power == 0) return format_real(value);
  std::array<char, 40> buffer{};
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::scientific);
  const std::string_view text(buffer.data(), static_cast<std::size_t>(result.ptr - buffer.data()));
  const auto e = text.find('e');
  if (e == std::string_view::npos) return std::string(text);  // not finite
  const bool negative = text.front() == '-';
  std::string digits;
  for (const char c : text.substr(0, e))
    if (is_digit(c)) digits += c;
  const std::string_view exponent_text = text.substr(e + (text[e + 1] == '+' ? 2 : 1));
  int exponent = 0;
  std::from_chars(exponent_text.data(), exponent_text.data() + exponent_text.size(), exponent);
  exponent -= power;
  const int size = static_cast<int>(digits.size());
  const auto cut = [&](int at) { return digits.substr(0, static_cast<std::size_t>(at)); };
  const auto rest = [&](int at) { return digits.substr(static_cast<std::size_t>(at)); };
  constexpr int kMostZeros = 6;  // written out before or behind the digits; chosen
  std::string out;
  if (digits == "0") {
    out = "0";
  } else if (exponent < 0 && exponent >= -kMostZeros) {
    out = "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  } else if (exponent >= 0 && exponent < size - 1) {
    out = cut(exponent + 1) + "." + rest(exponent + 1);
  } else if (exponent >= size - 1 && exponent - size + 1 <= kMostZeros) {
    out = digits + std::string(static_cast<std::size_t>(exponent - size + 1), '0');
  } else {
    out = fmt::format("{}{}{}e{}", cut(1), size > 1 ? "." : "", rest(1), exponent);
  }
  return (negative ? "-" : "") + out;
}

std::string format_size(std::uint64_t bytes) {
  for (const auto& [name, size] : kUnits)
    if (const auto one = static_cast<std::uint64_t>(size); bytes > 0 && bytes % one == 0)
      return fmt::format("{}{}", bytes / one, name);
  return fmt::format("{}B", bytes);
}

}  // namespace shard8::deck
