// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "deck/number.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <system_error>

namespace shard8::deck {
namespace {

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

Parsed<double> parse_real(std::string_view text) {
  const Shape shape = shape_of(text);
  if (std::string why = bad_spelling(text, shape); !why.empty()) return {{}, why};
  std::string plain = lower(text);
  std::replace(plain.begin(), plain.end(), 'd', 'e');
  if (plain[0] == '+') plain.erase(0, 1);
  double value = 0.0;
  const auto [end, status] = std::from_chars(plain.data(), plain.data() + plain.size(), value);
  if (status == std::errc::result_out_of_range) return {{}, "it is beyond double precision"};
  if (status != std::errc() || end != plain.data() + plain.size()) return {{}, {}};
  return {value, {}};
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

}  // namespace shard8::deck
