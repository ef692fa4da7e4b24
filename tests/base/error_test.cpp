// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "base/error.hpp"

#include <gtest/gtest.h>

#include <string>

namespace shard8::base {
namespace {

TEST(Error, carries_code_and_text) {
  try {
    fail(ExitCode::environment, "need {} ranks, got {}", 4, 2);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::environment);
    EXPECT_EQ(to_int(e.code()), 3);
    EXPECT_STREQ(e.what(), "need 4 ranks, got 2");
    return;
  }
  FAIL() << "fail() returned";
}

TEST(Error, require_shows_expression_and_place) {
  const int rows = 3;
  SHARD8_REQUIRE(rows == 3, "never formatted {}", rows);
  const int line = __LINE__ + 2;
  try {
    SHARD8_REQUIRE(rows % 2 == 0, "rows = {} is odd", rows);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::failed);
    EXPECT_EQ(std::string(e.what()), fmt::format("rows = 3 is odd (requirement 'rows % 2 == 0' does not hold at "
                                                 "base/error_test.cpp:{})",
                                                 line));
    return;
  }
  FAIL() << "SHARD8_REQUIRE let it pass";
}

TEST(Error, require_without_arguments) { EXPECT_THROW(SHARD8_REQUIRE(false, "plain text"), Error); }

}  // namespace
}  // namespace shard8::base
