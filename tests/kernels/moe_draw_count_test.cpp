// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <vector>

#include "kernels/moe.hpp"
#include "tests/kernels/moe_cases.hpp"
#include "tests/support/compare.hpp"

// Sums of what is dispatched, against rows that are laid out one by one.

namespace shard8::tests {
namespace {

struct Case {
  int ranks = 1;
  std::int64_t local = 1;  ///< experts of a rank
  std::int64_t round_rows = 1, multiple = 1;
  std::int64_t most = 0;  ///< rows of a rank for an expert
};

/// The sums of one call, behind the counts of experts.
Doubles counted_one_by_one(const Case& c, const std::vector<std::int64_t>& counts, int rank) {
  const std::int64_t experts = c.ranks * c.local;
  double received = 0, further = 0, busiest = 0, rounds = 0;
  for (int to = 0; to < c.ranks; ++to) {
    std::int64_t place = 0, rows = 0;
    for (std::int64_t e = to * c.local; e < (to + 1) * c.local; ++e) {
      for (int from = 0; from < c.ranks; ++from)
        for (std::int64_t i = 0; i < counts[static_cast<std::size_t>(from * experts + e)]; ++i, ++place, ++rows)
          if (from == rank && place / c.round_rows > 0) ++further;
      while (place % c.multiple != 0) ++place;
    }
    if (to == rank) received = static_cast<double>(rows);
    busiest = std::max(busiest, static_cast<double>(rows));
    rounds = std::max(rounds, static_cast<double>((place + c.round_rows - 1) / c.round_rows));
  }
  return {received, further, busiest, rounds, rounds};
}

TEST(MoeCount, SumsAreThoseOfRowsLaidOut) {
  std::mt19937 draw(7);
  const std::vector<Case> cases{{1, 1, 8, 1, 40},    {1, 6, 16, 1, 9},   {2, 3, 7, 1, 10},    {2, 64, 128, 16, 30},
                                {4, 2, 32, 16, 50},  {8, 16, 96, 32, 9}, {3, 5, 1, 1, 3},     {16, 8, 256, 128, 70},
                                {40, 2, 200, 1, 12}, {2, 2, 4, 1, 0},    {5, 1, 1000, 1, 100}};
  for (const Case& c : cases) {
    SCOPED_TRACE(::testing::Message() << c.ranks << " ranks of " << c.local << ", rounds of " << c.round_rows);
    const std::int64_t experts = c.ranks * c.local;
    const int rank = static_cast<int>(draw() % static_cast<unsigned>(c.ranks));
    Doubles want(static_cast<std::size_t>(experts + kernels::kMoeSums));
    const Buffer sums({experts + kernels::kMoeSums}, DType::i32, 0.0);
    for (int call = 0; call < 3; ++call) {
      std::vector<std::int64_t> counts(static_cast<std::size_t>(c.ranks * experts));
      for (std::int64_t& n : counts)
        n = std::max<std::int64_t>(0, static_cast<std::int64_t>(draw() % (2 * c.most + 1)) - c.most);
      kernels::moe_count(Exec(), sums, Buffer({c.ranks, experts}, DType::i32, Doubles(counts.begin(), counts.end())),
                         {rank, c.round_rows, c.multiple});
      for (std::int64_t e = 0; e < experts; ++e)
        want[static_cast<std::size_t>(e)] += static_cast<double>(counts[static_cast<std::size_t>(rank * experts + e)]);
      const Doubles more = counted_one_by_one(c, counts, rank);
      for (std::size_t i = 0; i + 1 < more.size(); ++i) want[static_cast<std::size_t>(experts) + i] += more[i];
      want.back() = std::max(want.back(), more.back());
    }
    EXPECT_EQ(sums.get(), want);
  }
}

/// A round of no rows, as where no token has an expert.
TEST(MoeCount, NoRows) {
  const Buffer sums({4 + kernels::kMoeSums}, DType::i32, 0.0);
  kernels::moe_count(Exec(), sums, Buffer({2, 4}, DType::i32, 0.0), {1, 0, 1});
  EXPECT_EQ(sums.get(), Doubles(static_cast<std::size_t>(4 + kernels::kMoeSums)));
}

Doubles draw(std::int64_t tokens, std::int64_t per_token, const kernels::MoeDraw& how, const Exec& exec = Exec()) {
  const Buffer chosen({tokens, per_token}, DType::i32, -7);
  kernels::moe_draw(exec, chosen, how);
  return chosen.get();
}

/// How often each expert is the k-th of a token.
Doubles frequencies(const Doubles& chosen, std::int64_t per_token, std::int64_t k, std::int64_t experts) {
  Doubles counts(at(experts));
  for (std::size_t i = at(k); i < chosen.size(); i += at(per_token)) ++counts[static_cast<std::size_t>(chosen[i])];
  return counts;
}

/// The experts by place: the most frequent first.
std::vector<std::size_t> by_frequency(const Doubles& counts) {
  std::vector<std::size_t> order(counts.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return counts[a] > counts[b]; });
  return order;
}

/// Whether a count is within five standard deviations of n draws of probability p. Draws depend on constants alone, so
/// the test gives the same answer always.
void expect_frequency(double count, double n, double p) {
  EXPECT_NEAR(count, n * p, 5 * std::sqrt(n * p * (1 - p)) + 1e-9);
}

TEST(MoeDraw, ExpertsAreDistinct) {
  const std::vector<MoeCase> cases{{0, 8, 2}, {1, 1, 1}, {300, 8, 8}, {2050, 128, 8}, {33, 128, 64}, {9, 2048, 64}};
  for (const auto& c : cases) {
    for (const bool balanced : {false, true}) {
      for (const double skew : {0.0, 1.0, 30.0}) {
        SCOPED_TRACE(::testing::Message() << c.per_token << " of " << c.experts << ", balanced " << balanced);
        const auto chosen = draw(c.tokens, c.per_token, {balanced, skew, c.experts, 5, 2, 3, 0, 100});
        for (std::int64_t t = 0; t < c.tokens; ++t) {
          const auto first = chosen.begin() + t * c.per_token;
          const std::set<double> distinct(first, first + c.per_token);
          ASSERT_EQ(distinct.size(), at(c.per_token)) << "token " << t;
          ASSERT_GE(*distinct.begin(), 0);
          ASSERT_LT(*distinct.rbegin(), static_cast<double>(c.experts));
        }
      }
    }
  }
}

TEST(MoeDraw, BalancedWithinOne) {
  for (const std::int64_t experts : {1, 7, 8, 128}) {
    for (const std::int64_t per_token : {1, 5}) {
      if (per_token > experts) continue;
      const std::int64_t tokens = 611;
      const auto chosen = draw(tokens, per_token, {.experts = experts, .seed = 3, .step = 4, .layer = 1, .seq = 13});
      Doubles counts(at(experts));
      for (const double e : chosen) ++counts[static_cast<std::size_t>(e)];
      const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
      EXPECT_LE(*most - *least, 1) << experts;
    }
  }
}

TEST(MoeDraw, DoesNotDependOnRanks) {
  constexpr std::int64_t kSequences = 6, kSeq = 20, kPerToken = 3;
  for (const bool balanced : {false, true}) {
    const kernels::MoeDraw how{balanced, 1.2, 16, 9, 7, 2, 0, kSeq};
    const auto whole = draw(kSequences * kSeq, kPerToken, how);
    for (const auto& exec : exec_widths()) EXPECT_TRUE(same_bits(draw(kSequences * kSeq, kPerToken, how, exec), whole));
    // Two ranks have every other sequence each, and three ranks share each of these micro-batches, also within
    // sequences.
    for (std::int64_t replica = 0; replica < 2; ++replica) {
      for (const auto& [first, last] : {std::pair<std::int64_t, std::int64_t>{0, 17}, {17, 45}, {45, 60}}) {
        auto part = how;
        part.first_token = first;
        part.first_sequence = replica;
        part.sequence_stride = 2;
        Doubles want;
        for (std::int64_t token = first; token < last; ++token) {
          const auto n = (replica + 2 * (token / kSeq)) * kSeq + token % kSeq;
          want.insert(want.end(), whole.begin() + n * kPerToken, whole.begin() + (n + 1) * kPerToken);
        }
        EXPECT_TRUE(same_bits(draw(last - first, kPerToken, part), want)) << "tokens " << first << " to " << last;
      }
    }
  }
}

TEST(MoeDraw, DependsOnSeedStepAndLayer) {
  for (const bool balanced : {false, true}) {
    const kernels::MoeDraw how{balanced, 1, 997, 1, 1, 1, 0, 50};
    const auto base = draw(50, 2, how);
    auto seed = how, step = how, layer = how;
    ++seed.seed;
    ++step.step;
    ++layer.layer;
    EXPECT_NE(draw(50, 2, seed), base);
    EXPECT_NE(draw(50, 2, step), base);
    EXPECT_NE(draw(50, 2, layer), base);
  }
}

TEST(MoeDraw, FollowsZipfsLaw) {
  constexpr std::int64_t kTokens = 100'000, kExperts = 6;
  for (const double skew : {0.0, 1.0, 2.0}) {
    SCOPED_TRACE(skew);
    const kernels::MoeDraw how{false, skew, kExperts, 11, 0, 4, 0, 1000};
    const auto chosen = draw(kTokens, 2, how);
    const auto first = frequencies(chosen, 2, 0, kExperts), second = frequencies(chosen, 2, 1, kExperts);
    const auto expert_at = by_frequency(first);
    Doubles p(kExperts);
    double sum = 0;
    for (std::size_t r = 0; r < p.size(); ++r) sum += p[r] = std::pow(static_cast<double>(r + 1), -skew);
    for (auto& x : p) x /= sum;
    for (std::size_t r = 0; r < p.size(); ++r) {
      double later = 0;
      for (std::size_t before = 0; before < p.size(); ++before) {
        if (before != r) later += p[before] * p[r] / (1 - p[before]);
      }
      expect_frequency(first[expert_at[r]], kTokens, p[r]);
      expect_frequency(second[expert_at[r]], kTokens, later);
    }
  }
}

TEST(MoeDraw, ThePermutationDependsOnTheLayerAlone) {
  std::set<std::vector<std::size_t>> orders;
  for (const std::int64_t layer : {0, 1, 2, 3}) {
    kernels::MoeDraw how{false, 2, 5, 1, 1, layer, 0, 1000};
    const auto order = by_frequency(frequencies(draw(20'000, 1, how), 1, 0, 5));
    orders.insert(order);
    how.seed = 77;
    how.step = 9;
    EXPECT_EQ(by_frequency(frequencies(draw(20'000, 1, how), 1, 0, 5)), order);
  }
  EXPECT_GT(orders.size(), 1u);
}

/// With a large skew the places are drawn in order, although the probabilities of the last ones vanish beside the
/// first.
TEST(MoeDraw, LargeSkew) {
  const std::int64_t tokens = 500, per_token = 7;
  const auto chosen = draw(tokens, per_token, {false, 90, 8, 1, 1, 1, 0, 100});
  for (std::int64_t t = 1; t < tokens; ++t) {
    for (std::int64_t k = 0; k < per_token; ++k) {
      ASSERT_EQ(chosen[at(t * per_token + k)], chosen[at(k)]) << "token " << t;
    }
  }
}

}  // namespace
}  // namespace shard8::tests
