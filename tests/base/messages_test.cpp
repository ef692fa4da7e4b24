// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/text.hpp"

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
                                                 "base/messages_test.cpp:{})",
                                                 line));
    return;
  }
  FAIL() << "SHARD8_REQUIRE let it pass";
}

TEST(Error, require_without_arguments) { EXPECT_THROW(SHARD8_REQUIRE(false, "plain text"), Error); }

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

class File {
 public:
  File() : file_(std::tmpfile()) {}
  ~File() { std::fclose(file_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  std::FILE* get() const { return file_; }

  std::string text() const {
    std::rewind(file_);
    std::string all(4096, '\0');
    all.resize(std::fread(all.data(), 1, all.size(), file_));
    return all;
  }

 private:
  std::FILE* file_;
};

TEST(Log, only_the_speaker_informs) {
  File out, err;
  Logger(0, 4, 0, out.get(), err.get()).info("step {}", 7);
  Logger(2, 4, 0, out.get(), err.get()).info("not seen");
  EXPECT_EQ(out.text(), "step 7\n");
  EXPECT_EQ(err.text(), "");
}

TEST(Log, every_rank_warns_with_its_number) {
  File out, err;
  Logger(2, 4, 0, out.get(), err.get()).warn("slow {}", "disk");
  Logger(3, 4, 0, out.get(), err.get()).error("gone");
  EXPECT_EQ(out.text(), "");
  EXPECT_EQ(err.text(), "shard8: rank 2: warning: slow disk\nshard8: rank 3: error: gone\n");
}

TEST(Log, a_single_rank_needs_no_number) {
  File out, err;
  Logger(0, 1, 0, out.get(), err.get()).error("gone");
  EXPECT_EQ(err.text(), "shard8: error: gone\n");
}

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
