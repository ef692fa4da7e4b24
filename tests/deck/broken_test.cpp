// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// Every deck in broken/ must fail with exactly the text of its .expect file. An .args file has the arguments of the
// command line, one a line. After a change of messages rewrite the files, and read each change:
//   SHARD8_REWRITE=1 build/cpu/tests/deck.load --gtest_filter='Broken.*'
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "deck/diagnostics.hpp"
#include "deck/load.hpp"
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
