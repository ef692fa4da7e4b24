// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

// Every deck in broken/ must fail with exactly the text of its .expect file. An .args file has the arguments of the
// command line, one a line. After a change of messages rewrite the files, and read each change:
//   SHARD8_REWRITE=1 build/cpu/tests/deck.load --gtest_filter='Broken.*'

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "deck/load.hpp"
#include "deck/raw_deck.hpp"
#include "tests/deck/decks.hpp"

namespace shard8::deck {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> broken_decks() {
  std::vector<fs::path> decks;
  for (const auto& entry : fs::directory_iterator("tests/deck/broken")) {
    const auto end = entry.path().extension();
    if (end == ".yaml" || end == ".nml") decks.push_back(entry.path());
  }
  std::sort(decks.begin(), decks.end());
  return decks;
}

TEST(Broken, every_deck_gives_its_message) {
  const AtRoot at_root;
  const std::vector<fs::path> decks = broken_decks();
  EXPECT_GE(decks.size(), 130u);
  for (const fs::path& deck : decks) {
    fs::path args = deck;
    args.replace_extension(".args");
    fs::path expect = deck;
    expect += ".expect";
    const auto overrides = split_lines(read_file(args));  // none if there is no such file
    std::string message;
    base::ExitCode code = base::ExitCode::ok;
    try {
      load(deck.string(), overrides);
    } catch (const base::Error& error) {
      message = std::string(error.what()) + '\n';
      code = error.code();
    }
    EXPECT_EQ(base::to_int(code), 2) << deck;
    if (std::getenv("SHARD8_REWRITE") != nullptr) {
      std::ofstream(expect, std::ios::binary) << message;
    }
    ASSERT_TRUE(fs::exists(expect)) << expect;
    EXPECT_EQ(message, read_file(expect)) << deck;
  }
}

TEST(Broken, no_expectation_is_left_alone) {
  const AtRoot at_root;
  for (const auto& entry : fs::directory_iterator("tests/deck/broken")) {
    fs::path deck = entry.path();
    if (deck.extension() != ".expect") continue;
    EXPECT_TRUE(fs::exists(deck.replace_extension(""))) << entry.path();
  }
}

}  // namespace
}  // namespace shard8::deck

// Decks that try to overflow the stack of the reader, or to keep it busy for minutes.

namespace shard8::deck {
namespace {

constexpr std::size_t kDeep = 100'000;

std::string repeated(std::string_view text, std::size_t times) {
  std::string out;
  for (std::size_t i = 0; i < times; ++i) out += text;
  return out;
}

// The message with which load_text refuses a deck. Expects exit code 2 within seconds; a reader whose time grows with
// the square of the deck's size would take minutes.
std::string refusal(const std::string& deck, const std::string& name) {
  const std::clock_t begin = std::clock();  // of the core: time in which other processes have it does not count
  std::string message;
  try {
    load_text(deck, name);
    ADD_FAILURE() << "taken: " << deck.substr(0, 60);
  } catch (const base::Error& error) {
    EXPECT_EQ(base::to_int(error.code()), 2);
    message = error.what();
  }
  EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, 20) << deck.substr(0, 60);
  EXPECT_LT(message.size(), 100'000u);
  EXPECT_TRUE(message.starts_with(name + ":")) << message.substr(0, 300);
  return message;
}

TEST(Hostile, yaml_that_is_nested_deeply) {
  std::string blocks;
  for (std::size_t i = 0; i < 1000; ++i) blocks += std::string(i, ' ') + "a:\n";  // up to the limit on a deck's bytes
  const std::string flow = repeated("[", kDeep) + repeated("]", kDeep);
  for (const std::string& deck :
       {repeated("[", kDeep), flow, "a: " + flow, "model: {heads: " + flow + "}", repeated("{", kDeep),
        repeated("{a: ", kDeep), repeated("[{a: ", kDeep), repeated("- ", kDeep), "a:\n  " + repeated("- ", kDeep),
        repeated("? ", kDeep), repeated("- ? ", kDeep), blocks}) {
    const std::string message = refusal(deck, "deep.yaml");
    EXPECT_NE(message.find("error: lists and mappings are nested more than 16 deep here"), std::string::npos)
        << deck.substr(0, 60) << "\n"
        << message.substr(0, 1000);
  }
}

// Only the depth of nesting is bounded, not the number of collections.
TEST(Hostile, yaml_within_the_bound) {
  const std::string ok = std::string(kLeastDeck) + "# " + repeated("[", 10'000) + "\n";
  EXPECT_EQ(load_text(ok, "a.yaml").config.model.hidden, 64);
  const std::string sixteen = "model: {heads: " + repeated("[", 14) + repeated("]", 14) + "}\n";
  EXPECT_EQ(refusal(sixteen, "a.yaml").find("nested"), std::string::npos);
  const std::string seventeen = "model: {heads: " + repeated("[", 15) + repeated("]", 15) + "}\n";
  EXPECT_NE(refusal(seventeen, "a.yaml").find("a.yaml:1:30: error: lists and mappings are nested"), std::string::npos);
}

TEST(Hostile, yaml_with_an_error_in_every_word) {
  for (const std::string_view word :
       {": ", "&a ", "*a ", "!a ", "a: ", "\"\\x", "---\n", "%TAG ! b\n", "a:\n", "'", "|\n"}) {
    refusal(repeated(word, kDeep), "a.yaml");
  }
  std::string keys = "model: {";
  for (std::size_t i = 0; i < kDeep; ++i) keys += fmt::format("k{}: 1,", i);
  EXPECT_NE(refusal(keys + "}", "a.yaml").find("more errors"), std::string::npos);
  refusal("model: {" + repeated("a: 1,", kDeep) + "}", "a.yaml");
}

// Namelists have no nesting. Words that would open a level in Fortran are skipped one by one.
TEST(Hostile, namelists_with_an_error_in_every_word) {
  for (const std::string_view word : {"(", "%", "a%", "b(", "&a ", "$a ", "b ", "b=,", "b=1,", "b=(", "'", "\"a", "/",
                                      "!", ";", "b=1*", "&end ", "&\n"}) {
    refusal("&model " + repeated(word, kDeep), "a.nml");
    refusal(repeated(word, kDeep), "a.nml");
  }
  std::string keys = "&model ";
  for (std::size_t i = 0; i < kDeep; ++i) keys += fmt::format("k{}=1,", i);
  EXPECT_NE(refusal(keys + "/", "a.nml").find("more errors"), std::string::npos);
}

TEST(Hostile, other_encodings) {
  EXPECT_EQ(refusal("\xfe\xff\x61\x62", "a.yaml"), "a.yaml: error: this is UTF-16, a deck is UTF-8: save it as that");
  const std::string latin = "&output dir = 'M\xfcller' /\n";
  EXPECT_NE(refusal(latin, "a.nml").find("a.nml:1:15: error: output.dir is not UTF-8"), std::string::npos);
}

TEST(Hostile, arguments_are_shown_printable_and_short) {
  for (const std::string& argument : {std::string("\x1b[31m\x07"), std::string("mesh.\x1b=2"),
                                      std::string("mesh.tensor=\x1b"), std::string(100'000, 'a')}) {
    try {
      load_text(kLeastDeck, "a.yaml", std::vector<std::string>{argument});
      ADD_FAILURE() << argument.substr(0, 60);
    } catch (const base::Error& error) {
      const std::string message = error.what();
      EXPECT_TRUE(message.starts_with("command line:")) << message.substr(0, 300);
      EXPECT_LT(message.size(), 2000u);
      EXPECT_EQ(message.find_first_of("\x1b\x07"), std::string::npos) << message.substr(0, 300);
    }
  }
}

}  // namespace
}  // namespace shard8::deck
