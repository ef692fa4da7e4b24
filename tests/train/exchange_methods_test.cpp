// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "model/dims.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <utility>

namespace shard8 {
namespace {

using profile::Exchange;
using profile::ExchangeMethod;

std::string method_of(const deck::Config& config, Exchange exchange) {
  return std::string(name_of(model::Overlap::make(config).methods[exchange]));
}

TEST(ExchangeMethods, as_the_deck_says) {
  deck::Config config;
  config.mesh.tensor = 2;
  config.overlap.enable = true;
  config.overlap.methods[Exchange::qkv_wgrad] = ExchangeMethod::off;
  config.overlap.methods[Exchange::fc1_fprop] = ExchangeMethod::off;
  config.overlap.methods[Exchange::head_dgrad] = ExchangeMethod::bulk;
  for (const Exchange e : {Exchange::qkv_dgrad, Exchange::fc1_dgrad, Exchange::fc1_wgrad, Exchange::head_dgrad})
    EXPECT_EQ(method_of(config, e), "bulk") << name_of(e);
  for (const Exchange e : {Exchange::qkv_wgrad, Exchange::fc1_fprop, Exchange::embedding, Exchange::cross_entropy})
    EXPECT_EQ(method_of(config, e), "off") << name_of(e);
}

TEST(ExchangeMethods, forward) {
  deck::Config config;
  config.mesh.tensor = 2;
  config.overlap.enable = true;
  EXPECT_EQ(method_of(config, Exchange::qkv_fprop), "direct");
  EXPECT_EQ(method_of(config, Exchange::fc2_fprop), "pipeline");
  config.overlap.methods[Exchange::qkv_fprop] = config.overlap.methods[Exchange::head_fprop] = ExchangeMethod::ring;
  config.overlap.methods[Exchange::proj_fprop] = ExchangeMethod::ring;
  for (const Exchange e : {Exchange::qkv_fprop, Exchange::head_fprop, Exchange::proj_fprop})
    EXPECT_EQ(method_of(config, e), "ring") << name_of(e);
  EXPECT_EQ(method_of(config, Exchange::fc1_fprop), "direct");
}

/// What a recomputation overwrites cannot be read by a product that was deferred.
TEST(ExchangeMethods, deferred_products_and_recomputation) {
  deck::Config config;
  config.mesh.tensor = 2;
  config.overlap.enable = true;
  config.model.recompute = deck::Recompute::full;
  EXPECT_EQ(method_of(config, Exchange::proj_dgrad), "bulk");
  EXPECT_EQ(method_of(config, Exchange::fc2_dgrad), "off");
  config.model.recompute = deck::Recompute::selective;
  EXPECT_EQ(method_of(config, Exchange::proj_dgrad), "bulk");
  EXPECT_EQ(method_of(config, Exchange::fc2_dgrad), "bulk");
  config.fp8.recipe = deck::Recipe::block;
  EXPECT_EQ(method_of(config, Exchange::proj_dgrad), "off");
  EXPECT_EQ(method_of(config, Exchange::fc2_dgrad), "off");
}

/// The smallest product that overlaps has as many GFLOP as overlap.min_gflop. Sizes by hand: 2 × 16 tokens, T = 2.
TEST(ExchangeMethods, small_products_keep_the_plain_order) {
  deck::Config config;
  config.mesh.tensor = 2;
  config.overlap.enable = true;
  config.model.hidden = 8;
  config.model.heads = 4;
  config.model.kv_heads = 2;
  config.model.ffn = 24;
  config.model.vocab = 31;
  config.model.seq = 16;
  config.data.batch = 6;
  config.data.micro_batch = 2;
  const std::array<std::pair<Exchange, int>, 12> columns{{{Exchange::qkv_fprop, 8},
                                                          {Exchange::qkv_dgrad, 8},
                                                          {Exchange::qkv_wgrad, 8},
                                                          {Exchange::proj_fprop, 4},
                                                          {Exchange::fc2_dgrad, 4},  // overlapped with proj's wgrad
                                                          {Exchange::fc1_fprop, 24},
                                                          {Exchange::fc1_dgrad, 24},
                                                          {Exchange::fc1_wgrad, 24},
                                                          {Exchange::fc2_fprop, 12},
                                                          {Exchange::proj_dgrad, 12},  // overlapped with fc2's wgrad
                                                          {Exchange::head_fprop, 16},
                                                          {Exchange::head_dgrad, 16}}};
  for (const auto& [exchange, n] : columns) {
    const double gflop = 2e-9 * 32 * n * 8;
    config.overlap.min_gflop = 1.001 * gflop;
    EXPECT_EQ(method_of(config, exchange), "off") << name_of(exchange);
    config.overlap.min_gflop = 0.999 * gflop;
    EXPECT_NE(method_of(config, exchange), "off") << name_of(exchange);
  }
}

deck::Config with_experts() {
  deck::Config config;
  config.mesh.shard = config.mesh.expert = 2;
  config.mesh.device = deck::Device::cuda;
  config.overlap.enable = true;
  config.model.layers = 4;
  config.model.hidden = 8;
  config.model.seq = 16;
  config.model.moe.experts = 4;
  config.model.moe.experts_per_token = 3;
  config.model.moe.ffn = 24;
  config.model.moe.dispatch = deck::MoeDispatch::bf16;
  config.data.batch = config.data.micro_batch = 2;
  return config;
}

/// Of rows of experts: on devices alone, and of several ranks.
TEST(ExchangeMethods, rows_of_experts) {
  deck::Config config = with_experts();
  const auto both = [&] { return method_of(config, Exchange::dispatch) + " " + method_of(config, Exchange::combine); };
  EXPECT_EQ(both(), "pipeline pipeline");
  const model::Overlap overlap = model::Overlap::make(config);
  EXPECT_FALSE(overlap.of_tensor_group());
  EXPECT_TRUE(overlap.of_experts());
  EXPECT_EQ(overlap.expert_chunks, 2);
  config.mesh.device = deck::Device::host;
  EXPECT_EQ(both(), "off off");
  config = with_experts();
  config.mesh.expert = 1;
  EXPECT_EQ(both(), "off off");
  config = with_experts();
  config.run.skeleton = deck::Skeleton::communication;
  EXPECT_EQ(both(), "off off");
  config = with_experts();
  config.overlap.methods[Exchange::combine] = ExchangeMethod::off;
  config.overlap.chunks = 3;
  EXPECT_EQ(both(), "pipeline off");
  EXPECT_EQ(model::Overlap::make(config).expert_chunks, 3);
  config = with_experts();
  config.overlap.enable = false;
  EXPECT_EQ(both(), "off off");
}

/// A round with one expert a rank, or in one chunk, has no parts. A combine still overlaps with a product in backward.
TEST(ExchangeMethods, rounds_without_parts) {
  deck::Config config = with_experts();
  config.overlap.chunks = 1;
  EXPECT_EQ(method_of(config, Exchange::dispatch), "off");
  EXPECT_EQ(method_of(config, Exchange::combine), "pipeline");
  config = with_experts();
  config.mesh.shard = config.mesh.expert = 4;
  EXPECT_EQ(method_of(config, Exchange::dispatch), "off");
  EXPECT_EQ(method_of(config, Exchange::combine), "pipeline");
}

/// Where all rows are cast once they have come, they cannot be multiplied before.
TEST(ExchangeMethods, rows_that_are_cast_where_they_arrive) {
  deck::Config config = with_experts();
  config.fp8.recipe = deck::Recipe::delayed;
  const auto dispatch = [&] { return method_of(config, Exchange::dispatch); };
  EXPECT_EQ(dispatch(), "off");
  EXPECT_EQ(method_of(config, Exchange::combine), "pipeline");
  config.fp8.last_layers_bf16 = 1;
  EXPECT_EQ(dispatch(), "pipeline") << "of the layer in BF16";
  config.fp8.last_layers_bf16 = 0;
  config.fp8.first_layers_bf16 = config.model.moe.dense_layers = 2;
  EXPECT_EQ(dispatch(), "off") << "these have no experts";
  config.fp8.first_layers_bf16 = 3;
  EXPECT_EQ(dispatch(), "pipeline");
  config.fp8.first_layers_bf16 = 0;
  config.model.moe.dispatch = deck::MoeDispatch::fp8;
  EXPECT_EQ(dispatch(), "pipeline");
}

/// Sizes by hand: 2 × 16 tokens with 3 experts of 24, hidden 8.
TEST(ExchangeMethods, small_products_of_experts_keep_the_plain_order) {
  deck::Config config = with_experts();
  config.data.batch = 4;
  for (const auto& [exchange, n] : {std::pair(Exchange::dispatch, 48), std::pair(Exchange::combine, 24)}) {
    const double gflop = 2e-9 * 32 * 3 * n * 8;
    config.overlap.min_gflop = 1.001 * gflop;
    EXPECT_EQ(method_of(config, exchange), "off") << name_of(exchange);
    config.overlap.min_gflop = 0.999 * gflop;
    EXPECT_EQ(method_of(config, exchange), "pipeline") << name_of(exchange);
  }
}

TEST(ExchangeMethods, all_off_without_overlap) {
  deck::Config one_rank, not_enabled;
  one_rank.overlap.enable = true;
  not_enabled.mesh.tensor = 2;
  EXPECT_EQ(model::Overlap::make(one_rank).methods, profile::ExchangeMethods{});
  EXPECT_EQ(model::Overlap::make(not_enabled).methods, profile::ExchangeMethods{});
}

}  // namespace
}  // namespace shard8
