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
            "fp8        delayed (most_recent of 16 steps, margin -1), hybrid, 1 of 2 layers; weights cast from the "
            "master for each gather, "
            "gathered as fp8; scales are not rounded\n"
            "weights    all but FP8 linears gathered as fp32, 0 ahead, kept after forward; recompute none\n"
            "training   20 steps, lr 0.001 after 4 of warm-up, 1e-4 at step 20\n"
            "optimizer  moments in bf16, master in fp32\n"
            "verify     not configured\n"
            "output     out # not a comment\n");
}

TEST(Layout, description_of_the_least) {
  EXPECT_EQ(describe(config_with({})),
            "model      llama, 2 layers, hidden 64, ffn 192, 4 heads of width 16 (4 kv), vocab 256, "
            "seq 32\n"
            "mesh       1 rank = replicate 1 x shard 1 x tensor 1; backend auto, device auto\n"
            "data       synthetic, seed 1234\n"
            "batch      8 sequences a step = 1 data rank x 1 micro-batch x 8; 256 tokens of a micro-batch on a tensor "
            "rank\n"
            "precision  compute bf16, gradients reduced in fp32, deterministic\n"
            "weights    gathered as bf16, 1 ahead, freed after forward; recompute none\n"
            "training   20 steps, lr 0.001 after no warm-up, 0 at step 20\n"
            "verify     not configured\n"
            "output     out\n");
}

TEST(Layout, description_of_fp8) {
  const auto line = [](const std::string& name, const std::vector<std::string>& overrides) -> std::string {
    const std::string text = "\n" + describe(config_with(overrides));
    const auto at = text.find("\n" + name + " ");
    return at == std::string::npos ? "" : text.substr(at + 12, text.find('\n', at + 1) - at - 12);
  };
  EXPECT_EQ(line("fp8", {"fp8.recipe=delayed"}),
            "delayed (max of 1024 steps, margin 0), hybrid, 2 of 2 layers; weights kept as fp8, gathered as fp8; "
            "scales are not rounded");
  EXPECT_EQ(line("fp8", {"fp8.recipe=delayed", "fp8.amax_history=1", "fp8.last_layers_bf16=1"}),
            "delayed (max of 1 step, margin 0), hybrid, 1 of 2 layers; weights kept as fp8, gathered as fp8; "
            "scales are not rounded");
  EXPECT_EQ(line("fp8", {"fp8.recipe=current", "fp8.power_of_2_scales=true", "fp8.weights=bf16", "fsdp.gather=bf16"}),
            "current, hybrid, 2 of 2 layers; weights cast from the master for each gather, gathered as bf16; scales "
            "are powers of two");
  EXPECT_EQ(line("fp8", {"fp8.recipe=mxfp8"}),
            "mxfp8, e4m3, 2 of 2 layers; weights kept as fp8, gathered as fp8; scales are powers of two");
  EXPECT_EQ(line("weights", {"fp8.recipe=mxfp8"}),
            "all but FP8 linears gathered as bf16, 1 ahead, freed after forward; recompute none");
  EXPECT_EQ(line("fp8", {}), "");
  EXPECT_EQ(line("optimizer", {}), "");
  EXPECT_EQ(line("optimizer", {"optimizer.master=bf16_remainder"}),
            "moments in fp32, master in bf16 with a 16-bit remainder");
}

}  // namespace
}  // namespace shard8::deck
