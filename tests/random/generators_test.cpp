// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <map>
#include <set>
#include <string>

#include "base/error.hpp"
#include "deck/fields.hpp"
#include "tests/random/random_deck.hpp"

namespace shard8 {
namespace {

constexpr int kDecks = 600;

class Folder {
 public:
  Folder() : path_(std::filesystem::temp_directory_path() / fmt::format("shard8_generators_{}", getpid())) {
    std::filesystem::create_directory(path_);
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// How often each key is in the tables of this test.
std::map<std::string, int> listed() {
  std::map<std::string, int> times;
  for (const auto& generator : test::generators()) ++times[std::string(generator.path)];
  for (const auto& key : test::keys_not_drawn()) ++times[std::string(key.path)];
  return times;
}

TEST(Generators, EveryKeyOfTheTableHasOneOrAReason) {
  const auto times = listed();
  std::set<std::string> keys;
  for (const deck::Group& group : deck::all_groups()) {
    for (const deck::Field& field : group.fields) {
      const std::string path = fmt::format("{}.{}", group.name, field.key);
      keys.insert(path);
      ASSERT_TRUE(times.contains(path)) << path << " is never drawn: give it a generator in "
                                        << "tests/random/generators.cpp, or a reason in random_deck.cpp";
      EXPECT_EQ(times.at(path), 1) << path << " is listed more than once";
    }
  }
  for (const auto& [path, count] : times) EXPECT_TRUE(keys.contains(path)) << path << " is no key of the deck";
  for (const auto& key : test::keys_not_drawn()) EXPECT_FALSE(key.reason.empty()) << key.path;
}

/// Choices that a deck for hosts cannot have.
bool is_for_devices(const std::string& path, std::string_view name) {
  return (path == "mesh.backend" && name == "nccl") || (path == "mesh.device" && name == "cuda");
}

TEST(Generators, EveryKeyTakesItsValues) {
  const Folder folder;
  std::map<std::string, std::set<std::string>> seen;
  for (int number = 0; number < kDecks; ++number) {
    // The deck as it was drawn: loading replaces `auto` by a value.
    const test::RandomDeck deck = test::drawn(7, number, 0, folder.path());
    for (const auto& generator : test::generators())
      seen[std::string(generator.path)].insert(deck::value_text(deck::field_at(generator.path), deck.config));
  }
  for (const auto& generator : test::generators()) {
    const std::string path(generator.path);
    const deck::Field& field = deck::field_at(path);
    if (const auto* choice = std::get_if<deck::ChoiceAccess>(&field.access)) {
      for (const std::string_view name : choice->names) {
        const bool drawn = seen[path].contains(std::string(name));
        EXPECT_NE(drawn, is_for_devices(path, name)) << path << " = " << name;
      }
    } else {
      EXPECT_GE(seen[path].size(), 2U) << path << " has always the same value";
    }
  }
}

/// Few decks may be rejected; otherwise the generators do not know what the checks allow.
TEST(Generators, MostDecksAreAccepted) {
  const Folder folder;
  test::Acceptance acceptance;
  for (int number = 0; number < kDecks; ++number) test::draw_deck(11, number, folder.path(), acceptance);
  EXPECT_LE(acceptance.rejected * 20, acceptance.drawn)
      << acceptance.rejected << " of " << acceptance.drawn << " decks were rejected, the last one with\n"
      << acceptance.last_error;
}

/// `--only` must find the deck that `--seed` found.
TEST(Generators, ADeckIsAFunctionOfSeedAndNumber) {
  const Folder folder;
  test::Acceptance acceptance;
  const auto first = test::draw_deck(3, 17, folder.path(), acceptance);
  const auto again = test::draw_deck(3, 17, folder.path(), acceptance);
  const auto other = test::draw_deck(4, 17, folder.path(), acceptance);
  EXPECT_EQ(test::short_yaml(first.config), test::short_yaml(again.config));
  EXPECT_NE(test::short_yaml(first.config), test::short_yaml(other.config));
}

}  // namespace
}  // namespace shard8
