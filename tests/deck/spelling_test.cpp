// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// YAML and namelists are two spellings of one deck.
#include <gtest/gtest.h>

#include <string>

#include "base/error.hpp"
#include "deck/load.hpp"
#include "tests/deck/decks.hpp"

namespace shard8::deck {
namespace {

TEST(Spelling, both_give_the_same_config) {
  EXPECT_EQ(to_yaml(load_text(kYamlDeck, "a.yaml").config), to_yaml(load_text(kNamelistDeck, "a.nml").config));
}

TEST(Spelling, what_is_written_is_read_back) {
  const Config config = load_text(kYamlDeck, "a.yaml").config;
  const std::string yaml = to_yaml(config);
  const std::string namelist = to_namelist(config);
  EXPECT_EQ(to_yaml(load_text(yaml, "b.yaml").config), yaml);
  EXPECT_EQ(to_namelist(load_text(namelist, "b.nml").config), namelist);
  EXPECT_EQ(to_namelist(load_text(yaml, "b.yaml").config), namelist);
}

// Loads every beginning of a text. Expects an error with a place, or a Config.
void load_all_beginnings(const std::string& whole, const std::string& name) {
  int loaded = 0;
  for (std::size_t size = 0; size <= whole.size(); ++size) {
    try {
      load_text(whole.substr(0, size), name);
      ++loaded;
    } catch (const base::Error& error) {
      ASSERT_EQ(error.code(), base::ExitCode::deck);
      ASSERT_EQ(std::string(error.what()).rfind(name + ":", 0), 0u) << error.what();
    }
  }
  EXPECT_GE(loaded, 1);
  EXPECT_LT(loaded, static_cast<int>(whole.size()) / 2);
}

TEST(Spelling, beginnings_of_decks_are_no_surprise) {
  load_all_beginnings(kNamelistDeck, "a.nml");
  load_all_beginnings(kYamlDeck, "a.yaml");
}

TEST(Spelling, damaged_decks_are_no_surprise) {
  const AtRoot at_root;
  const std::string damage = "/&$'\"=,(%*!;:{}[]\n\t#|<\x80\x01";
  for (const std::string name : {"a.nml", "a.yaml"}) {
    const std::string whole = name == "a.nml" ? kNamelistDeck : kYamlDeck;
    for (std::size_t at = 0; at < whole.size(); ++at) {
      std::string text = whole;
      text[at] = damage[at % damage.size()];
      try {
        load_text(text, name);
      } catch (const base::Error& error) {
        ASSERT_EQ(error.code(), base::ExitCode::deck);
        ASSERT_EQ(std::string(error.what()).rfind(name + ":", 0), 0u) << error.what();
      }
    }
  }
}

}  // namespace
}  // namespace shard8::deck
