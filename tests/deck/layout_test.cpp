// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "deck/layout.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "deck/load.hpp"
#include "tests/deck/decks.hpp"

namespace shard8::deck {
namespace {

Config config_with(const std::vector<std::string>& overrides) {
  return load_text(kLeastDeck, "a.yaml", overrides).config;
}

TEST(Layout, whole_batch_at_once) {
  const Layout l = lay_out(config_with({"mesh.shard=2", "mesh.tensor=2"}));
  EXPECT_EQ(l.ranks, 4);
  EXPECT_EQ(l.data_ranks, 2);
  EXPECT_EQ(l.rank_batch, 4);
  EXPECT_EQ(l.micro_batch, 4);
  EXPECT_EQ(l.micro_batches, 1);
  EXPECT_EQ(l.padding, 0);
  EXPECT_EQ(l.tensor_tokens, 64);
}

TEST(Layout, sizes_that_do_not_divide) {
  const Layout l = lay_out(config_with({"mesh.replicate=3", "data.batch=10", "data.micro_batch=3"}));
  EXPECT_EQ(l.rank_batch, 4);
  EXPECT_EQ(l.micro_batch, 3);
  EXPECT_EQ(l.micro_batches, 2);
  EXPECT_EQ(l.padding, 8);  // 3 ranks x 2 x 3 - 10
}

TEST(Layout, a_micro_batch_is_no_more_than_there_is) {
  const Layout l = lay_out(config_with({"mesh.shard=5", "data.batch=8", "data.micro_batch=64"}));
  EXPECT_EQ(l.rank_batch, 2);
  EXPECT_EQ(l.micro_batch, 2);
  EXPECT_EQ(l.micro_batches, 1);
  EXPECT_EQ(l.padding, 2);
}

TEST(Layout, description) {
  EXPECT_EQ(describe(load_text(kYamlDeck, "a.yaml").config),
            "model      llama, 2 layers, hidden 64, ffn 192, 4 heads of width 16 (2 kv), vocab 256, "
            "seq 32\n"
            "mesh       4 ranks = replicate 1 x shard 2 x tensor 2; backend auto, device auto\n"
            "data       synthetic, seed 1234\n"
            "batch      8 sequences a step = 2 data ranks x 2 micro-batches x 3 - 4 of padding; 48 "
            "tokens of a micro-batch on a tensor rank\n"
            "precision  compute fp32, gradients reduced in fp32, not deterministic\n"
            "weights    gathered as fp32, 0 ahead, kept after forward; recompute none\n"
            "training   20 steps, lr 0.001 after 4 of warm-up, 1e-4 at step 20\n"
            "verify     not configured\n"
            "output     out # not a comment\n");
}

}  // namespace
}  // namespace shard8::deck
