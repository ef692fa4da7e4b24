// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "base/log.hpp"

#include <gtest/gtest.h>

#include <cstdio>

namespace shard8::base {
namespace {

TEST(Colour, of_the_first_word_on_each_line) {
  EXPECT_EQ(with_colours("deck.yaml:3:1: error: no\n  | error\n"),
            "deck.yaml:3:1: \x1b[1;31merror:\x1b[0m no\n  | error\n");
  EXPECT_EQ(with_colours("shard8: rank 1: warning: a\nwarning: b"),
            "shard8: rank 1: \x1b[1;33mwarning:\x1b[0m a\n\x1b[1;33mwarning:\x1b[0m b");
  EXPECT_EQ(with_colours("shard8: cannot write\nno shard8: here\n"),
            "\x1b[1;31mshard8:\x1b[0m cannot write\nno shard8: here\n");
  EXPECT_EQ(with_colours("myerror: is no error\n"), "myerror: is no error\n");
  EXPECT_EQ(with_colours(""), "");
}

TEST(Colour, none_in_a_file) {
  std::FILE* const file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  EXPECT_FALSE(has_colours(file));
  EXPECT_EQ(coloured("error: x\n", file), "error: x\n");
  std::fclose(file);
}

}  // namespace
}  // namespace shard8::base
