// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "app/command_table.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace shard8::app {
namespace {

constexpr double kNone = std::numeric_limits<double>::infinity();

TEST(OptionValues, numbers_are_finite_and_within_their_bounds) {
  for (const char* good : {"0.01", "10", "+1", "1e0", "0.5"}) EXPECT_EQ(problem_of_number(good, 0.01, 10), "") << good;
  for (const std::string bad : {"nan", "NaN", "-nan", "nan(1)", "inf", "-inf", "infinity", "1e999", "0", "10.1", "",
                                "x", "1x", " 1", "0x1", "+-1"})
    EXPECT_EQ(problem_of_number(bad, 0.01, 10), "'" + bad + "' is not a number from 0.01 to 10");
  for (const std::string bad : {"nan", "inf", "-1"})
    EXPECT_EQ(problem_of_number(bad, 0, kNone), "'" + bad + "' is not a number from 0");
  EXPECT_EQ(problem_of_number("1e300", 0, kNone), "");
}

TEST(OptionValues, whole_numbers_have_no_fraction) {
  for (const char* good : {"0", "+7", "100"}) EXPECT_EQ(problem_of_whole(good, 0, 100), "") << good;
  for (const std::string bad : {"nan", "inf", "-1", "101", "1.5", "1e1", "", "99999999999999999999"})
    EXPECT_EQ(problem_of_whole(bad, 0, 100), "'" + bad + "' is not a whole number from 0 to 100");
}

}  // namespace
}  // namespace shard8::app
