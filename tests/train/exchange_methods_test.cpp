// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "train/exchange_methods.hpp"

#include <gtest/gtest.h>

namespace shard8 {
namespace {

using profile::Exchange;

std::string method_of(const deck::Config& config, Exchange exchange) {
  return train::exchange_methods(config)[static_cast<std::size_t>(exchange)];
}

TEST(ExchangeMethods, as_the_deck_says) {
  deck::Config config;
  config.mesh.tensor = 2;
  config.overlap.enable = true;
  config.overlap.qkv_wgrad = deck::OverlapMethod::off;
  config.overlap.head_dgrad = deck::OverlapMethod::bulk;
  for (const Exchange e : {Exchange::qkv_dgrad, Exchange::fc1_dgrad, Exchange::fc1_wgrad, Exchange::head_dgrad})
    EXPECT_EQ(method_of(config, e), "bulk") << name_of(e);
  for (const Exchange e : {Exchange::qkv_wgrad, Exchange::qkv_fprop, Exchange::embedding, Exchange::cross_entropy})
    EXPECT_EQ(method_of(config, e), "off") << name_of(e);
}

TEST(ExchangeMethods, all_off_without_overlap) {
  deck::Config one_rank, not_enabled;
  one_rank.overlap.enable = true;
  not_enabled.mesh.tensor = 2;
  EXPECT_EQ(train::exchange_methods(one_rank), profile::all_off());
  EXPECT_EQ(train::exchange_methods(not_enabled), profile::all_off());
}

}  // namespace
}  // namespace shard8
