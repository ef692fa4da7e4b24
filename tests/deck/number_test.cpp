// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "deck/number.hpp"

#include <gtest/gtest.h>

#include <cfloat>
#include <cmath>
#include <cstdint>
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

TEST(Number, scaled_reals_are_correctly_rounded) {
  EXPECT_EQ(parse_scaled("540.1", -6).value, 540.1e-6);
  EXPECT_EQ(parse_scaled("989.4", 12).value, 989.4e12);
  EXPECT_EQ(parse_scaled("2.5e-3", 6).value, 2.5e3);
  EXPECT_EQ(parse_scaled("+2.5D+3", -3).value, 2.5);
  EXPECT_EQ(parse_scaled("0", -6).value, 0.0);
  EXPECT_FALSE(parse_scaled("1e308", 9).value.has_value());
  EXPECT_FALSE(parse_scaled("1e99999999999999999999", -6).value.has_value());
  EXPECT_FALSE(parse_scaled("1us", -6).value.has_value());
  EXPECT_EQ(format_scaled(540.1e-6, -6), "540.1");
  EXPECT_EQ(format_scaled(3350e9, 9), "3350");
  EXPECT_EQ(format_scaled(-0.25e-6, -6), "-0.25");
  EXPECT_EQ(format_scaled(0, -6), "0");
  EXPECT_EQ(format_scaled(1e-20, -6), "1e-14");
  EXPECT_EQ(format_scaled(1.5e30, -6), "1.5e36");
  for (const double value : {1.0 / 3.0, 0.1, 1e-300, 123456789.123e-6, 7e22, -2.5e-7, DBL_MIN, 5e-324})
    for (const int power : {-6, 0, 3, 9, 12})
      EXPECT_EQ(parse_scaled(format_scaled(value, power), power).value, value) << format_scaled(value, power);
}

TEST(Number, sizes) {
  EXPECT_EQ(parse_size("80GiB").value, std::uint64_t{80} << 30);
  EXPECT_EQ(parse_size("1.5MB").value, 1500000u);
  EXPECT_EQ(parse_size("1B").value, 1u);
  for (const char* text : {"80", "GiB", "80 GiB", "80gib", "80GiBB", "-1B", "0B", "0.5B", "1e18B", "08B", ""}) {
    EXPECT_FALSE(parse_size(text).value.has_value()) << text;
    EXPECT_FALSE(parse_size(text).why.empty()) << text;
  }
  EXPECT_EQ(format_size(std::uint64_t{80} << 30), "80GiB");
  EXPECT_EQ(format_size(1500000), "1500kB");
  EXPECT_EQ(format_size(1), "1B");
  for (const std::uint64_t bytes : {1ull, 1023ull, 1024ull, 999999999999999ull, 1000000000000ull, 85520809984ull})
    EXPECT_EQ(parse_size(format_size(bytes)).value, bytes) << format_size(bytes);
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
