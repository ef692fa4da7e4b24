// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "deck/number.hpp"

#include <gtest/gtest.h>

#include <cfloat>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "deck/fields.hpp"

namespace shard8::deck {
namespace {

TEST(Number, integers) {
  EXPECT_EQ(parse_integer("0").value, 0);
  EXPECT_EQ(parse_integer("256").value, 256);
  EXPECT_EQ(parse_integer("-7").value, -7);
  EXPECT_EQ(parse_integer("+7").value, 7);
  EXPECT_EQ(parse_integer("9223372036854775807").value, std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(parse_unsigned("18446744073709551615").value, std::numeric_limits<std::uint64_t>::max());
}

TEST(Number, what_is_no_integer) {
  for (const char* text : {"",    "+",     "-",     "--1",      "+-1",  "010",  "-01",
                           "00",  "1_000", "1,000", "3abc",     "0x10", "0b1",  "0o7",
                           "1e3", "1d3",   "1.",    "1.0",      ".5",   "five", "true",
                           " 1",  "1 ",    "1\n",   "\xd9\xa3", "nan",  "inf",  "9223372036854775808"}) {
    const auto parsed = parse_integer(text);
    EXPECT_FALSE(parsed.value.has_value()) << "'" << text << "'";
    EXPECT_FALSE(parsed.why.empty()) << "'" << text << "'";
  }
  EXPECT_FALSE(parse_unsigned("-1").value.has_value());
  EXPECT_FALSE(parse_unsigned("18446744073709551616").value.has_value());
}

TEST(Number, reals) {
  EXPECT_EQ(parse_real("5").value, 5.0);
  EXPECT_EQ(parse_real("+5").value, 5.0);
  EXPECT_EQ(parse_real("-5.25").value, -5.25);
  EXPECT_EQ(parse_real("1.").value, 1.0);
  EXPECT_EQ(parse_real(".5").value, 0.5);
  EXPECT_EQ(parse_real("1e-3").value, 1e-3);
  EXPECT_EQ(parse_real("1E-03").value, 1e-3);
  EXPECT_EQ(parse_real("1.0d-3").value, 1e-3);
  EXPECT_EQ(parse_real("1.0D+3").value, 1e3);
  EXPECT_EQ(parse_real("0.1").value, 0.1);
  EXPECT_EQ(parse_real("1.7976931348623157e308").value, DBL_MAX);
}

TEST(Number, what_is_no_real) {
  for (const char* text : {"",      ".",    "-",     "e3",     ".e3",    "1e",   "1e+",  "1d",  "1+3",      "1.2.3",
                           "1.5f",  "1,5",  "01.5",  "1_0.5",  "0x1p3",  "nan",  "-nan", "inf", "Infinity", ".inf",
                           "-.inf", ".nan", "1e999", "-1e999", "1e-999", "1.5 ", " 1.5", "true"}) {
    EXPECT_FALSE(parse_real(text).value.has_value()) << "'" << text << "'";
  }
}

TEST(Number, logicals) {
  for (const char* text : {"true", "True", "TRUE", "t", "T", ".true.", ".TRUE.", ".t."}) {
    EXPECT_EQ(parse_logical(text).value, true) << text;
  }
  for (const char* text : {"false", "False", "f", "F", ".false.", ".FALSE.", ".F."}) {
    EXPECT_EQ(parse_logical(text).value, false) << text;
  }
  for (const char* text : {"", "yes", "no", "on", "off", "1", "0", ".true", "true.", "tru", "y"}) {
    EXPECT_FALSE(parse_logical(text).value.has_value()) << text;
  }
}

TEST(Number, written_reals_are_read_back) {
  EXPECT_EQ(format_real(1e-5), "1e-5");
  EXPECT_EQ(format_real(1e22), "1e22");
  EXPECT_EQ(format_real(0.02), "0.02");
  EXPECT_EQ(format_real(10000), "10000");
  for (const double value : {0.0, 1.0, 0.1, 1.0 / 3.0, 1e-300, DBL_MIN, DBL_MAX, -2.5e-7, 123456789.123}) {
    EXPECT_EQ(parse_real(format_real(value)).value, value) << format_real(value);
  }
}

TEST(Nearest, finds_what_was_meant) {
  const std::vector<std::string_view> names = {"replicate", "shard", "tensor", "backend"};
  EXPECT_EQ(nearest("tensr", names), "tensor");
  EXPECT_EQ(nearest("tenosr", names), "tensor");
  EXPECT_EQ(nearest("TENSOR", names), "tensor");
  EXPECT_EQ(nearest("replica", names), "replicate");
  EXPECT_EQ(nearest("sharded", names), "shard");
}

TEST(Nearest, leaves_the_far_alone) {
  const std::vector<std::string_view> names = {"replicate", "shard", "tensor", "backend"};
  EXPECT_EQ(nearest("topology", names), "");
  EXPECT_EQ(nearest("", names), "");
  EXPECT_EQ(nearest(std::string(10000, 't'), names), "");
  EXPECT_EQ(nearest("tensor", {}), "");
}

}  // namespace
}  // namespace shard8::deck
