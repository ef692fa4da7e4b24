// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// What the number of ranks decides: mesh.shard = auto and data.batch_per_rank.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "deck/load.hpp"
#include "tests/deck/decks.hpp"

namespace shard8::deck {
namespace {

const char* const kAutoYaml = R"(
model: {hidden: 64, ffn: 192, layers: 2, heads: 4, vocab: 256, seq: 32}
mesh: {replicate: 2, shard: auto, tensor: 2}
optimizer: {lr: 1e-3}
data: {kind: synthetic, batch_per_rank: 3}
run: {steps: 20}
)";

const char* const kAutoNamelist = R"(
&model hidden = 64, ffn = 192, layers = 2, heads = 4, vocab = 256, seq = 32 /
&mesh replicate = 2, shard = 'auto', tensor = 2 /
&optimizer lr = 1e-3 /
&data kind = 'synthetic', batch_per_rank = 3 /
&run steps = 20 /
)";

using Overrides = std::vector<std::string>;

LoadResult with(const Overrides& overrides, std::optional<std::int64_t> ranks = {}, const char* deck = kLeastDeck) {
  return load_text(deck, "a.yaml", overrides, ranks);
}

std::string error_of(const Overrides& overrides, std::optional<std::int64_t> ranks = {},
                     const char* deck = kLeastDeck) {
  try {
    with(overrides, ranks, deck);
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::ExitCode::deck);
    return error.what();
  }
  return "no error";
}

TEST(Ranks, auto_is_what_the_other_dimensions_leave) {
  for (const std::int64_t ranks : {4, 8, 12, 4096}) {
    const Config c = with({}, ranks, kAutoYaml).config;
    EXPECT_EQ(c.mesh.shard, ranks / 4);
    EXPECT_EQ(c.mesh.ranks(), ranks);
    EXPECT_EQ(c.data.batch, 3 * ranks / 2);
    EXPECT_EQ(c.data.batch_per_rank, 0);
  }
}

TEST(Ranks, both_spellings) {
  const Config yaml = load_text(kAutoYaml, "a.yaml", {}, 8).config;
  EXPECT_EQ(to_yaml(yaml), to_yaml(load_text(kAutoNamelist, "a.nml", {}, 8).config));
  // The resolved deck has numbers, and is a deck without the number of ranks.
  EXPECT_NE(to_yaml(yaml).find("\n  shard: 2\n"), std::string::npos);
  EXPECT_NE(to_yaml(yaml).find("\n  batch: 12\n"), std::string::npos);
  EXPECT_EQ(to_yaml(load_text(to_yaml(yaml), "b.yaml").config), to_yaml(yaml));
  EXPECT_EQ(to_yaml(load_text(to_namelist(yaml), "b.nml").config), to_yaml(yaml));
}

TEST(Ranks, the_echo_says_who_gave_the_numbers) {
  const auto origin = [](const LoadResult& deck, const std::string& path) {
    const auto at =
        std::find_if(deck.echo.begin(), deck.echo.end(), [&](const Echo& e) { return e.group + "." + e.key == path; });
    return at == deck.echo.end() ? std::string_view() : to_string(at->origin);
  };
  const LoadResult deck = with({}, 8, kAutoYaml);
  EXPECT_EQ(origin(deck, "mesh.shard"), "deck");
  EXPECT_EQ(origin(deck, "data.batch"), "deck");
  EXPECT_EQ(origin(deck, "data.batch_per_rank"), "default");
  EXPECT_EQ(origin(with({"data.batch_per_rank=2"}), "data.batch"), "command line");
}

TEST(Ranks, without_their_number_auto_is_one) {
  const LoadResult open = with({}, {}, kAutoYaml);
  EXPECT_TRUE(open.ranks_open);
  EXPECT_EQ(open.config.mesh.ranks(), 4);
  ASSERT_EQ(open.warnings.size(), 1u);
  EXPECT_EQ(open.warnings[0],
            "a.yaml:3:29: warning: mesh.shard = auto is taken as 1, on 4 ranks: the number of ranks is not known here\n"
            "    3 | mesh: {replicate: 2, shard: auto, tensor: 2}\n"
            "      |                             ^~~~  give it with --ranks=N\n");
  const LoadResult known = with({}, 8, kAutoYaml);
  EXPECT_FALSE(known.ranks_open);
  EXPECT_TRUE(known.warnings.empty());
  EXPECT_FALSE(with({"mesh.shard=2"}, {}, kAutoYaml).ranks_open);
}

TEST(Ranks, a_mesh_with_numbers_is_not_held_against_them) { EXPECT_EQ(with({"mesh.shard=2"}, 7).config.mesh.shard, 2); }

TEST(Ranks, what_divides) {
  EXPECT_EQ(
      error_of({}, 6, kAutoYaml),
      "a.yaml:3:29: error: mesh.shard = auto: 6 ranks are not divisible by mesh.replicate * mesh.tensor = 2 * 2 "
      "= 4\n"
      "    3 | mesh: {replicate: 2, shard: auto, tensor: 2}\n"
      "      |                             ^~~~  start 4 or 8 ranks, or choose replicate * tensor = 1, 2, 3 or 6");
  EXPECT_EQ(error_of({"mesh.shard=auto", "mesh.tensor=4"}, 1),
            "command line:mesh.shard=auto: error: mesh.shard = auto: 1 rank is not divisible by mesh.replicate * "
            "mesh.tensor = 1 * 4\n"
            "      | mesh.shard=auto\n"
            "      |            ^~~~  start 4 ranks, or choose replicate * tensor = 1");
  EXPECT_NE(error_of({"mesh.shard=auto"}, 2147483647).find("expected an integer from 1 to 1048576, or auto"),
            std::string::npos);
}

TEST(Ranks, auto_is_a_word_of_shard_alone) {
  EXPECT_NE(error_of({"mesh.tensor=auto"}).find("mesh.tensor = auto is not an integer"), std::string::npos);
  EXPECT_NE(error_of({"mesh.shard=atuo"}).find("expected an integer from 1 to 1048576, or auto"), std::string::npos);
  EXPECT_NE(error_of({"mesh.shard=0"}).find("mesh.shard = 0 is out of bounds"), std::string::npos);
  EXPECT_EQ(with({"mesh.shard=auto"}, 3).config.mesh.shard, 3);
}

TEST(Ranks, batch_and_batch_per_rank_exclude_each_other) {
  const std::string both = error_of({"data.batch=4", "data.batch_per_rank=2"});
  EXPECT_NE(both.find("data.batch = 4 and data.batch_per_rank = 2 are both given"), std::string::npos) << both;
  EXPECT_NE(both.find("leave one out: batch counts the sequences of all ranks"), std::string::npos) << both;
  // The command line replaces what the deck has.
  EXPECT_EQ(with({"data.batch_per_rank=2", "mesh.shard=3"}).config.data.batch, 6);
  EXPECT_EQ(with({"data.batch=5"}, 4, kAutoYaml).config.data.batch, 5);
  EXPECT_EQ(with({"data.batch=5"}, 4, kAutoYaml).config.data.batch_per_rank, 0);
  EXPECT_EQ(with({"data.batch_per_rank=0"}).config.data.batch, 8);
}

TEST(Ranks, one_of_batch_and_batch_per_rank_is_needed) {
  const char* const neither = R"(
model: {hidden: 64, ffn: 192, layers: 2, heads: 4, vocab: 256, seq: 32}
optimizer: {lr: 1e-3}
data: {kind: synthetic}
run: {steps: 20}
)";
  EXPECT_NE(error_of({}, {}, neither).find("batch must be given"), std::string::npos);
  EXPECT_NE(error_of({"data.batch_per_rank=0"}, {}, neither).find("needs data.batch, which is not given"),
            std::string::npos);
  EXPECT_EQ(with({"data.batch_per_rank=3"}, {}, neither).config.data.batch, 3);
  EXPECT_NE(error_of({"data.batch_per_rank=-1"}, {}, neither).find("data.batch_per_rank = -1 is out of bounds"),
            std::string::npos);
  EXPECT_NE(error_of({"data.batch_per_rank=2000000000", "mesh.shard=4"}, {}, neither)
                .find("2000000000 sequences on each of 4 data ranks are too many"),
            std::string::npos);
}

}  // namespace
}  // namespace shard8::deck
