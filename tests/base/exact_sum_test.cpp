// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "base/exact_sum.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace shard8::base {
namespace {

using Limits = std::numeric_limits<double>;
__extension__ using Int128 = __int128;

double sum_of(const std::vector<double>& terms) {
  ExactSum sum;
  for (const double x : terms) sum.add(x);
  return sum.value();
}

bool same(double a, double b) { return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b); }

TEST(ExactSum, OfOneTermIsTheTerm) {
  EXPECT_TRUE(same(sum_of({}), 0.0));
  EXPECT_TRUE(same(sum_of({-0.0}), 0.0));
  std::mt19937_64 random(1);
  for (int i = 0; i < 20'000; ++i) {
    const double x = std::bit_cast<double>(random());
    if (std::isnan(x)) continue;
    ASSERT_TRUE(same(sum_of({x}), x)) << x;
  }
  for (const double x :
       {Limits::denorm_min(), Limits::min(), Limits::max(), 1.0, -Limits::denorm_min(), -Limits::max()})
    EXPECT_TRUE(same(sum_of({x}), x)) << x;
}

// In doubles a + b − a is not b. Here every term but one has its opposite among the terms, in any order.
TEST(ExactSum, CancelsOverTheWholeRange) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 50; ++round) {
    std::vector<double> terms;
    double rest = 0;
    do rest = std::bit_cast<double>(random());
    while (!std::isfinite(rest));
    for (int i = 0; i < 500; ++i) {
      const double x = std::bit_cast<double>(random());
      if (!std::isfinite(x)) continue;
      terms.push_back(x);
      terms.push_back(-x);
    }
    terms.push_back(rest);
    std::shuffle(terms.begin(), terms.end(), random);
    ASSERT_TRUE(same(sum_of(terms), rest)) << "round " << round;
  }
}

// Integers times a power of two, added exactly in __int128.
TEST(ExactSum, IsTheSumOfIntegersRoundedOnce) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 2'000; ++round) {
    Int128 exact = 0;
    std::vector<double> terms;
    for (int i = 0; i < 40; ++i) {
      const int shift = static_cast<int>(random() % 60);
      const auto mantissa = static_cast<std::int64_t>(random() >> 11) * (random() % 2 == 0 ? 1 : -1);
      exact += static_cast<Int128>(mantissa) << shift;
      terms.push_back(std::ldexp(static_cast<double>(mantissa), shift));
    }
    ASSERT_TRUE(same(sum_of(terms), static_cast<double>(exact))) << "round " << round;
    for (double& x : terms) x = std::ldexp(x, -1074);  // subnormals and their sums
    ASSERT_TRUE(same(sum_of(terms), std::ldexp(static_cast<double>(exact), -1074))) << "round " << round;
  }
}

TEST(ExactSum, RoundsToNearestAndTiesToEven) {
  constexpr double kUlp = 0x1p-52, kLeast = Limits::denorm_min();
  EXPECT_EQ(sum_of({1, kUlp / 2}), 1);
  EXPECT_EQ(sum_of({1 + kUlp, kUlp / 2}), 1 + 2 * kUlp);
  EXPECT_EQ(sum_of({1, kUlp / 2, kLeast}), 1 + kUlp);
  EXPECT_EQ(sum_of({-1, -kUlp / 2, -kLeast}), -1 - kUlp);
  EXPECT_EQ(sum_of({1 + kUlp, kUlp / 2, -kLeast}), 1 + kUlp);
  EXPECT_EQ(sum_of({Limits::max(), Limits::max() * kUlp / 8}), Limits::max());
  EXPECT_EQ(sum_of({Limits::max(), Limits::max()}), Limits::infinity());
  EXPECT_EQ(sum_of({-Limits::max(), -Limits::max()}), -Limits::infinity());
  EXPECT_EQ(sum_of({Limits::max(), Limits::max(), -Limits::max()}), Limits::max());
}

TEST(ExactSum, KeepsInfinityAndNan) {
  constexpr double kInf = Limits::infinity();
  EXPECT_EQ(sum_of({1, kInf, -Limits::max()}), kInf);
  EXPECT_EQ(sum_of({-kInf, 1, -kInf}), -kInf);
  EXPECT_TRUE(std::isnan(sum_of({kInf, 1, -kInf})));
  EXPECT_TRUE(std::isnan(sum_of({Limits::quiet_NaN(), kInf})));
}

// What an all-reduce does: the words of several sums, normalised or not, are added.
TEST(ExactSum, OfWordsIsTheSumOfAllTerms) {
  std::mt19937_64 random(4);
  for (int round = 0; round < 200; ++round) {
    ExactSum all, by_ranks;
    for (int rank = 0; rank < 8; ++rank) {
      ExactSum own;
      for (int i = 0; i < 20; ++i) {
        const double x = std::ldexp(static_cast<double>(static_cast<std::int64_t>(random())),
                                    static_cast<int>(random() % 200) - 100);
        own.add(x);
        all.add(x);
      }
      if (rank % 2 == 0) own.normalise();
      for (std::size_t w = 0; w < ExactSum::kWords; ++w) by_ranks.words()[w] += own.words()[w];
    }
    ASSERT_TRUE(same(by_ranks.value(), all.value()));
    by_ranks.normalise();
    ASSERT_TRUE(same(by_ranks.value(), all.value()));
  }
}

TEST(ExactSum, TakesManyTerms) {
  ExactSum sum;
  for (int i = 0; i < 1 << 22; ++i) sum.add(-0.1);
  EXPECT_EQ(sum.value(), std::ldexp(-0.1, 22));
}

}  // namespace
}  // namespace shard8::base
