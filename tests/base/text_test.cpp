// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "base/text.hpp"

#include <gtest/gtest.h>

namespace shard8::base {
namespace {

TEST(Text, ControlCharactersAreReplaced) {
  EXPECT_EQ(printable("a\x1b[31m\nb\x7f\tc\xc3\xa9"), "a?[31m?b?\tc\xc3\xa9");
  EXPECT_EQ(printable(std::string("\0a", 2)), "?a");
}

TEST(Text, IsCutBetweenCharacters) {
  const std::string text = "ab\xc3\xa9\xf0\x9f\x98\x80";  // 1, 1, 2 and 4 bytes
  EXPECT_EQ(shortened(text, 8), text);
  EXPECT_EQ(shortened(text, 7), "ab\xc3\xa9...");
  EXPECT_EQ(shortened(text, 5), "ab\xc3\xa9...");
  EXPECT_EQ(shortened(text, 4), "ab\xc3\xa9...");
  EXPECT_EQ(shortened(text, 3), "ab...");
  EXPECT_EQ(shortened(text, 0), "...");
  EXPECT_EQ(shortened("\x80\x80\x80\x80\x80\x80", 5), "\x80\x80...");  // no UTF-8: at most three bytes fewer
  EXPECT_EQ(quotable(std::string(1000, 'a')).size(), 203u);
}

TEST(Text, Utf8) {
  for (const auto* good : {"", "a", "\x7f", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80",
                           "\xef\xbf\xbf", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf", "a\xc3\xa9z"}) {
    EXPECT_TRUE(is_utf8(good)) << good;
  }
  for (const auto* bad : {"\x80", "\xbf", "\xc0\x80", "\xc1\xbf", "\xc3", "\xc3z", "\xe0\x9f\xbf", "\xed\xa0\x80",
                          "\xed\xbf\xbf", "\xe2\x82", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80",
                          "\xf8\x88\x80\x80\x80", "\xff", "\xfe", "a\xc3"}) {
    EXPECT_FALSE(is_utf8(bad)) << bad;
  }
}

}  // namespace
}  // namespace shard8::base
