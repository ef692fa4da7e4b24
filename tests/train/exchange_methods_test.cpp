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

TEST(ExchangeMethods, all_off_without_overlap) {
  deck::Config one_rank, not_enabled;
  one_rank.overlap.enable = true;
  not_enabled.mesh.tensor = 2;
  EXPECT_EQ(model::Overlap::make(one_rank).methods, profile::ExchangeMethods{});
  EXPECT_EQ(model::Overlap::make(not_enabled).methods, profile::ExchangeMethods{});
}

}  // namespace
}  // namespace shard8
