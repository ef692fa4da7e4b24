// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// Decks with experts. The exact messages of errors are in broken/.
#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "deck/layout.hpp"
#include "deck/load.hpp"
#include "deck/overlap.hpp"
#include "tests/deck/decks.hpp"

namespace shard8::deck {
namespace {

using Overrides = std::vector<std::string>;

LoadResult moe_deck(Overrides overrides, std::optional<std::int64_t> ranks = {}) {
  overrides.insert(overrides.begin(), "moe.experts=8");
  return load_text(kLeastDeck, "a.yaml", overrides, ranks);
}

std::string moe_error(const Overrides& overrides, std::optional<std::int64_t> ranks = {}) {
  try {
    moe_deck(overrides, ranks);
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::ExitCode::deck);
    return error.what();
  }
  return {};
}

TEST(Moe, keys_and_defaults) {
  const ModelConfig m =
      moe_deck({"model.layers=5", "moe.dense_layers=2", "moe.routing=zipf", "moe.skew=1.5"}).config.model;
  EXPECT_TRUE(m.moe.on());
  EXPECT_EQ(m.moe.experts_per_token, 2);
  EXPECT_EQ(m.moe.ffn, 192);
  EXPECT_EQ(m.moe.routing, MoeRouting::zipf);
  EXPECT_EQ(m.moe.skew, 1.5);
  EXPECT_EQ(m.moe.capacity, 2.0);
  EXPECT_EQ(m.moe.balance, 0.0);
  EXPECT_EQ(m.expert_layers(), 3);
  EXPECT_FALSE(m.has_experts(1));
  EXPECT_TRUE(m.has_experts(2));
  EXPECT_TRUE(m.has_dense_layers());
  EXPECT_EQ(moe_deck({"moe.ffn=24"}).config.model.moe.ffn, 24);
  EXPECT_EQ(moe_deck({"moe.ffn=0"}).config.model.moe.ffn, 192);
  EXPECT_FALSE(moe_deck({}).config.model.has_dense_layers());
}

TEST(Moe, rows_are_sent_in_fp8_where_a_matrix_has_one_scale) {
  const auto dispatch = [](const Overrides& overrides) { return moe_deck(overrides).config.model.moe.dispatch; };
  for (const std::string recipe : {"delayed", "current"}) {
    EXPECT_EQ(dispatch({"moe.ffn=128", "fp8.recipe=" + recipe}), MoeDispatch::fp8);
    EXPECT_EQ(dispatch({"moe.ffn=128", "moe.dispatch=bf16", "fp8.recipe=" + recipe}), MoeDispatch::bf16);
  }
  EXPECT_EQ(dispatch({"moe.ffn=64", "fp8.recipe=mxfp8"}), MoeDispatch::bf16);
  EXPECT_NE(
      moe_error({"moe.ffn=64", "moe.dispatch=fp8", "fp8.recipe=mxfp8"}).find("moe.dispatch = fp8 does not go with"),
      std::string::npos);
  EXPECT_NE(moe_error({"moe.dispatch=fp8"}).find("moe.dispatch = fp8 does not go with fp8.recipe = none"),
            std::string::npos);
}

/// The last layer that is in FP8 decides, not the recipe.
TEST(Moe, rows_are_not_sent_in_fp8_where_all_experts_are_in_bf16) {
  const Overrides bf16{"model.layers=4", "moe.dense_layers=2", "fp8.recipe=delayed", "fp8.last_layers_bf16=2"};
  const auto changed = [&](const Overrides& more) {
    Overrides overrides = bf16;
    overrides.insert(overrides.end(), more.begin(), more.end());
    return moe_deck(overrides);
  };
  EXPECT_EQ(changed({}).config.model.moe.dispatch, MoeDispatch::automatic);
  for (const char* dispatch : {"auto", "bf16", "fp8"}) {
    const LoadResult deck = changed({std::string("moe.dispatch=") + dispatch});
    EXPECT_FALSE(deck.config.sends_rows_in_fp8());
    EXPECT_EQ(describe(deck.config).find("rows are sent in FP8"), std::string::npos);
    if (dispatch == std::string("auto")) {
      EXPECT_EQ(deck.warnings, Overrides{});
      continue;
    }
    ASSERT_EQ(deck.warnings.size(), 1u);
    EXPECT_NE(deck.warnings[0].find(std::string("moe.dispatch = ") + dispatch + " has no effect"), std::string::npos);
    EXPECT_NE(deck.warnings[0].find("nothing reads it with fp8.last_layers_bf16 = 2"), std::string::npos);
  }
  // One layer with experts is in FP8: the third.
  const LoadResult one = changed({"fp8.last_layers_bf16=1", "fp8.first_layers_bf16=1", "moe.dispatch=fp8"});
  EXPECT_TRUE(one.config.sends_rows_in_fp8());
  EXPECT_EQ(one.warnings, Overrides{});
  EXPECT_NE(describe(one.config).find("rows are sent in FP8"), std::string::npos);
  EXPECT_EQ(one.config.fp8.layers_with_experts(one.config.model), 1);
  EXPECT_EQ(one.config.fp8.layers_with_ffn(one.config.model), 1);
}

TEST(Moe, without_experts_every_layer_is_dense) {
  const ModelConfig m = moe_deck({"moe.experts=0", "model.layers=3"}).config.model;
  EXPECT_FALSE(m.moe.on());
  EXPECT_EQ(m.moe.ffn, 0);
  EXPECT_EQ(m.expert_layers(), 0);
  EXPECT_FALSE(m.has_experts(2));
  EXPECT_TRUE(m.has_dense_layers());
}

TEST(Moe, exchanges_of_absent_blocks_are_not_overlapped) {
  const Overrides overlap{"mesh.tensor=2", "overlap.enable=true", "model.layers=2"};
  const auto described = [&](const char* dense_layers) {
    Overrides overrides = overlap;
    overrides.emplace_back(dense_layers);
    return describe_overlap(moe_deck(overrides).config);
  };
  const std::string with_blocks = described("moe.dense_layers=1"), without = described("moe.dense_layers=0");
  for (const char* key : {"proj_dgrad", "fc1_fprop", "fc2_fprop", "fc1_dgrad", "fc2_dgrad", "fc1_wgrad"}) {
    EXPECT_NE(with_blocks.find(key), std::string::npos) << with_blocks;
    EXPECT_EQ(without.find(key), std::string::npos) << without;
  }
  EXPECT_NE(without.find("qkv_fprop"), std::string::npos) << without;
}

/// Keys of dispatch and combine that change nothing are warned of.
TEST(Moe, overlap_of_rows_without_an_effect) {
  const auto warnings = [&](Overrides overrides) {
    overrides.insert(overrides.end(), {"overlap.enable=true", "overlap.dispatch=pipeline", "overlap.combine=pipeline"});
    return moe_deck(overrides).warnings;
  };
  EXPECT_TRUE(warnings({"mesh.shard=2", "mesh.expert=2"}).empty());
  EXPECT_TRUE(warnings({"mesh.shard=2", "mesh.expert=2", "mesh.device=cuda"}).empty());
  const auto expect = [&](const Overrides& overrides, std::size_t count, const char* reason) {
    const auto found = warnings(overrides);
    ASSERT_EQ(found.size(), count) << reason;
    for (const std::string& warning : found) EXPECT_NE(warning.find(reason), std::string::npos) << warning;
  };
  expect({"mesh.tensor=2", "mesh.expert=2", "mesh.device=host"}, 2, "nothing reads it with mesh.device = host");
  expect({"mesh.tensor=2"}, 2, "nothing reads it with mesh.expert = 1");
  const auto tensor_key =
      moe_deck({"mesh.shard=2", "mesh.expert=2", "overlap.enable=true", "overlap.qkv_fprop=direct"});
  ASSERT_EQ(tensor_key.warnings.size(), 1U);
  EXPECT_NE(tensor_key.warnings[0].find("overlap.qkv_fprop = direct has no effect"), std::string::npos);
}

TEST(Moe, what_is_written_is_read_back) {
  const LoadResult deck =
      moe_deck({"moe.ffn=24", "moe.balance=1d-2", "moe.capacity=1", "mesh.tensor=2", "mesh.expert=2"});
  const std::string yaml = to_yaml(deck.config), namelist = to_namelist(deck.config);
  EXPECT_EQ(to_yaml(load_text(yaml, "b.yaml").config), yaml);
  EXPECT_EQ(to_yaml(load_text(namelist, "b.nml").config), yaml);
  // Decks without experts, too, and with no warning.
  const LoadResult dense = load_text(to_yaml(moe_deck({"moe.experts=0"}).config), "b.yaml");
  EXPECT_EQ(dense.warnings, Overrides{});
}

TEST(Moe, keys_that_nothing_reads_are_warned_of) {
  const auto warnings = [](const Overrides& overrides) { return load_text(kLeastDeck, "a.yaml", overrides).warnings; };
  for (const char* key : {"moe.experts_per_token=3", "moe.ffn=24", "moe.balance=0.1", "moe.routing=zipf", "moe.skew=2",
                          "moe.capacity=1", "moe.dense_layers=1"}) {
    const auto found = warnings({key});
    ASSERT_EQ(found.size(), 1u) << key;
    EXPECT_NE(found[0].find("nothing reads it with moe.experts = 0"), std::string::npos) << found[0];
    EXPECT_EQ(warnings({"moe.experts=8", "moe.routing=zipf", key}), Overrides{}) << key;
  }
  for (const std::string routing : {"learned", "balanced"}) {
    const auto found = warnings({"moe.experts=8", "moe.skew=2", "moe.routing=" + routing});
    ASSERT_EQ(found.size(), 1u) << routing;
    EXPECT_NE(found[0].find("moe.skew = 2 has no effect"), std::string::npos) << found[0];
    EXPECT_NE(found[0].find("nothing reads it with moe.routing = " + routing), std::string::npos) << found[0];
  }
}

TEST(Moe, expert_ranks_divide_shard_and_tensor_ranks) {
  for (const auto& [shard, tensor, expert] :
       {std::array{1, 1, 1}, {2, 1, 2}, {1, 2, 2}, {2, 2, 4}, {4, 2, 8}, {8, 1, 4}, {2, 4, 1}})
    EXPECT_EQ(moe_error({"mesh.shard=" + std::to_string(shard), "mesh.tensor=" + std::to_string(tensor),
                         "mesh.expert=" + std::to_string(expert)}),
              "");
  // A group of experts may contain parts of tensor groups: 3 ranks of 3 x 2.
  EXPECT_EQ(moe_error({"moe.experts=9", "mesh.shard=3", "mesh.tensor=2", "mesh.expert=3"}), "");
  EXPECT_NE(moe_error({"mesh.replicate=2", "mesh.expert=2"})
                .find("mesh.shard * mesh.tensor = 1 * 1 = 1 is not divisible by mesh.expert = 2"),
            std::string::npos);
}

TEST(Moe, expert_ranks_divide_what_auto_becomes) {
  const Overrides open = {"mesh.shard=auto", "mesh.tensor=2", "mesh.expert=4"};
  EXPECT_EQ(moe_deck(open, 8).config.mesh.shard, 4);
  EXPECT_EQ(moe_deck(open, 4).config.mesh.shard, 2);
  EXPECT_NE(moe_error(open, 6).find("mesh.shard * mesh.tensor = 3 * 2 = 6 is not divisible by mesh.expert = 4"),
            std::string::npos);
  EXPECT_NE(moe_error(open, 6).find("mesh.expert could be 1 or 2"), std::string::npos);
  const LoadResult unknown = moe_deck(open);
  EXPECT_EQ(unknown.config.mesh.shard, 2);
  ASSERT_EQ(unknown.warnings.size(), 1u);
  EXPECT_NE(unknown.warnings[0].find("mesh.shard = auto is taken as 2, on 4 ranks"), std::string::npos)
      << unknown.warnings[0];
}

TEST(Moe, tensor_ranks_cut_feed_forward_blocks_and_no_experts) {
  const Overrides odd = {"mesh.tensor=2", "model.ffn=191"};
  EXPECT_EQ(moe_error(odd), "");
  EXPECT_NE(moe_error({odd[0], odd[1], "moe.dense_layers=1"}).find("model.ffn = 191 is not divisible by mesh.tensor"),
            std::string::npos);
  EXPECT_EQ(moe_error({"mesh.tensor=2", "moe.ffn=191", "moe.dense_layers=1"}), "");
}

TEST(Moe, the_description_names_the_experts) {
  const auto text = [](const Overrides& overrides) { return describe(moe_deck(overrides).config); };
  EXPECT_NE(text({}).find("hidden 64, 8 experts of ffn 192, 4 heads"), std::string::npos) << text({});
  EXPECT_NE(text({}).find("\nexperts    2 of 8 a token, routing learned, balance 0; all on each rank; a round holds "
                          "2 times the mean\n"),
            std::string::npos)
      << text({});
  const std::string other =
      text({"moe.dense_layers=1", "moe.ffn=24", "moe.routing=zipf", "mesh.tensor=2", "mesh.expert=2"});
  EXPECT_NE(other.find("ffn 192 in the first layer, then 8 experts of ffn 24"), std::string::npos) << other;
  EXPECT_NE(other.find("routing zipf with skew 1, balance 0; 4 on each of 2 ranks;"), std::string::npos) << other;
  EXPECT_NE(text({"fp8.recipe=delayed"}).find("holds 2 times the mean, rows are sent in FP8\n"), std::string::npos);
  EXPECT_EQ(describe(load_text(kLeastDeck, "a.yaml").config).find("experts"), std::string::npos);
}

}  // namespace
}  // namespace shard8::deck
