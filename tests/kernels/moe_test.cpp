// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/moe.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.hpp"
#include "tests/kernels/moe_cases.hpp"
#include "tests/support/compare.hpp"

namespace shard8::tests {
namespace {

/// The relative error of a softmax in fp32: a few roundings of an exponential, of a sum and of a quotient.
constexpr double kSoftmax = 3e-6;

/// Logits with many ties.
Buffer draw_logits(const MoeCase& c, unsigned seed) {
  auto values = Buffer::normal({c.tokens, c.experts}, DType::fp32, seed, 2).get();
  for (auto& v : values) v = std::round(2 * v) / 2;
  return {{c.tokens, c.experts}, DType::fp32, values};
}

Doubles softmax(const Doubles& logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  Doubles p;
  for (const double x : logits) p.push_back(std::exp(x - largest));
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  for (auto& x : p) x /= sum;
  return p;
}
Doubles row(const Doubles& all, std::int64_t t, std::int64_t n) {
  return {all.begin() + t * n, all.begin() + (t + 1) * n};
}
Doubles picked(const Doubles& from, const Doubles& experts) {
  Doubles values;
  for (const double e : experts) values.push_back(from[static_cast<std::size_t>(e)]);
  return values;
}
void append(Doubles& to, const Doubles& more) { to.insert(to.end(), more.begin(), more.end()); }

TEST(MoeRoute, ChoosesTheLargest) {
  for (const auto& c : kMoeCases) {
    SCOPED_TRACE(::testing::Message() << c.per_token << " of " << c.experts << ", tokens " << c.tokens);
    const auto logits = draw_logits(c, 1);
    const auto x = logits.get();
    Doubles probabilities, chosen, weights;
    for (std::int64_t t = 0; t < c.tokens; ++t) {
      const auto in = row(x, t, c.experts);
      Doubles order(at(c.experts));
      std::iota(order.begin(), order.end(), 0.0);
      std::stable_sort(order.begin(), order.end(), [&](double a, double b) {
        return in[static_cast<std::size_t>(a)] > in[static_cast<std::size_t>(b)];
      });
      order.resize(at(c.per_token));
      append(probabilities, softmax(in));
      append(chosen, order);
      append(weights, softmax(picked(in, order)));
    }
    for (const auto& exec : exec_widths()) {
      const MoeRoutingBuffers routing(c);
      kernels::moe_route(exec, routing, logits, true);
      EXPECT_TRUE(same_bits(routing.chosen.get(), chosen));
      EXPECT_TRUE(all_close(routing.probabilities.get(), probabilities, {kSoftmax}));
      EXPECT_TRUE(all_close(routing.weights.get(), weights, {kSoftmax}));
    }
  }
}

TEST(MoeRoute, TakesWhatIsChosen) {
  for (const auto& c : kMoeCases) {
    const auto logits = draw_logits(c, 2), chosen = moe_chosen(c, 3);
    const auto x = logits.get(), experts = chosen.get();
    Doubles weights;
    for (std::int64_t t = 0; t < c.tokens; ++t) {
      append(weights, softmax(picked(row(x, t, c.experts), row(experts, t, c.per_token))));
    }
    const MoeRoutingBuffers routing(c);
    store(routing.chosen, stored<std::int32_t>(chosen));
    kernels::moe_route(Exec(), routing, logits, false);
    EXPECT_TRUE(same_bits(routing.chosen.get(), experts));
    EXPECT_TRUE(all_close(routing.weights.get(), weights, {kSoftmax}));
  }
}

TEST(MoeRoute, TiesZerosAndNan) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInf = HUGE_VAL;
  const Doubles rows{
      1,     kNan, 1,    -0.0,  0.0,   // a NaN comes last; −0 equals 0
      kNan,  kNan, kNan, kNan,  kNan,  // nothing but NaN
      -kInf, 2,    kNan, -kInf, 2,     // −∞ is larger than a NaN
  };
  const Doubles want{0, 2, 3, 4, 1, 0, 1, 2, 3, 4, 1, 4, 0, 3, 2};
  for (const std::int64_t per_token : {1, 4, 5}) {
    const MoeCase c{3, 5, per_token};
    const MoeRoutingBuffers routing(c);
    kernels::moe_route(Exec(), routing, Buffer({3, 5}, DType::fp32, rows), true);
    for (std::int64_t t = 0; t < 3; ++t) {
      auto first = row(want, t, 5);
      first.resize(at(per_token));
      EXPECT_TRUE(same_bits(row(routing.chosen.get(), t, per_token), first)) << "row " << t;
    }
    const auto weights = routing.weights.get(), probabilities = routing.probabilities.get();
    EXPECT_EQ(per_token == 5, std::isnan(weights[0]));
    EXPECT_TRUE(std::isnan(weights[at(per_token)]));
    for (const double p : probabilities) EXPECT_TRUE(std::isnan(p));
  }
}

TEST(MoeRoute, LargeLogitsDoNotOverflow) {
  const MoeCase c{1, 3, 2};
  const MoeRoutingBuffers routing(c);
  kernels::moe_route(Exec(), routing, Buffer({1, 3}, DType::fp32, Doubles{3e38, -3e38, 3e38}), true);
  EXPECT_TRUE(same_bits(routing.probabilities.get(), Doubles{0.5, 0, 0.5}));
  EXPECT_TRUE(same_bits(routing.weights.get(), Doubles{0.5, 0.5}));
}

/// A balance over sequences of 40 tokens, of which row 0 is token 13.
struct Balanced {
  std::int64_t seq = 40, first_token = 13, sequences;
  Buffer sums;
  explicit Balanced(const MoeCase& c)
      : sequences((first_token + c.tokens) / seq + 1), sums({2, sequences, c.experts}, DType::fp32, 9) {}
};

class MoeRouteBackward : public ::testing::TestWithParam<DType> {};

TEST_P(MoeRouteBackward, EqualsTheFormula) {
  for (const auto& c : kMoeCases) {
    for (const bool with_balance : {false, true}) {
      SCOPED_TRACE(::testing::Message() << c.per_token << " of " << c.experts << ", tokens " << c.tokens << ", balance "
                                        << with_balance);
      const MoeRoutingBuffers routing(c);
      kernels::moe_route(Exec(), routing, draw_logits(c, 1), true);
      auto gradient = Buffer::normal({c.tokens, c.per_token}, DType::fp32, 2).get();
      const auto token_weights = moe_token_weights(c.tokens);
      const auto is = token_weights.get();
      for (std::int64_t t = 4; t < c.tokens; t += 5) gradient[at(t * c.per_token)] = HUGE_VAL;  // padding
      const Buffer dweights({c.tokens, c.per_token}, DType::fp32, gradient);
      const Balanced balanced(c);
      Doubles counts(at(2 * balanced.sequences * c.experts));
      for (std::size_t i = 0; i < counts.size(); ++i) counts[i] = static_cast<double>(i * 7 % 11);
      Buffer sums({2, balanced.sequences, c.experts}, DType::fp32, counts);
      kernels::MoeBalance balance{{}, balanced.first_token, balanced.seq, 0.5f};
      if (with_balance) balance.sums = sums;
      const auto p = routing.probabilities.get(), w = routing.weights.get(), chosen = routing.chosen.get();
      Doubles want(at(c.tokens * c.experts));
      for (std::int64_t t = 0; t < c.tokens; ++t) {
        if (is[at(t)] == 0) continue;
        const auto b = (balanced.first_token + t) / balanced.seq;
        double inner = 0, mean = 0;
        for (std::int64_t k = 0; k < c.per_token; ++k)
          inner += w[at(t * c.per_token + k)] * gradient[at(t * c.per_token + k)];
        const auto dp = [&](std::int64_t e) {
          const auto seq = static_cast<double>(balanced.seq);
          return 0.5 * static_cast<double>(c.experts) / (static_cast<double>(c.per_token) * seq) *
                 counts[at(b * c.experts + e)] / seq;
        };
        for (std::int64_t e = 0; e < c.experts; ++e) mean += p[at(t * c.experts + e)] * dp(e);
        for (std::int64_t e = 0; e < c.experts && with_balance; ++e) {
          want[at(t * c.experts + e)] = p[at(t * c.experts + e)] * (dp(e) - mean);
        }
        for (std::int64_t k = 0; k < c.per_token; ++k) {
          const auto i = t * c.per_token + k;
          want[at(t * c.experts) + static_cast<std::size_t>(chosen[at(i)])] += w[at(i)] * (gradient[at(i)] - inner);
        }
      }
      for (const auto& exec : exec_widths()) {
        const Buffer dlogits({c.tokens, c.experts}, GetParam(), 9);
        kernels::moe_route_backward(exec, dlogits, dweights, routing, balance, token_weights);
        EXPECT_TRUE(all_close(dlogits.get(), want, {rounding(GetParam()), 2e-6}));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, MoeRouteBackward, ::testing::Values(DType::fp32, DType::bf16));

TEST(MoeBalance, SumsOverSequences) {
  for (const auto& c : kMoeCases) {
    SCOPED_TRACE(::testing::Message() << c.per_token << " of " << c.experts << ", tokens " << c.tokens);
    const Balanced balanced(c);
    const auto chosen = moe_chosen(c, 1);
    auto p = Buffer::normal({c.tokens, c.experts}, DType::fp32, 2).get();
    for (auto& x : p) x = std::abs(x);
    for (std::int64_t t = 4; t < c.tokens; t += 5) p[at(t * c.experts)] = HUGE_VAL;  // padding
    const Buffer probabilities({c.tokens, c.experts}, DType::fp32, p);
    const auto token_weights = moe_token_weights(c.tokens);
    const auto is = token_weights.get(), experts = chosen.get();
    p = probabilities.get();
    const auto half = balanced.sequences * c.experts;
    Doubles counts(at(half)), sums(at(half));
    for (std::int64_t t = 0; t < c.tokens; ++t) {
      if (is[at(t)] == 0) continue;
      const auto b = (balanced.first_token + t) / balanced.seq;
      for (std::int64_t k = 0; k < c.per_token; ++k) {
        counts[at(b * c.experts) + static_cast<std::size_t>(experts[at(t * c.per_token + k)])] += 1;
      }
      for (std::int64_t e = 0; e < c.experts; ++e) sums[at(b * c.experts + e)] += p[at(t * c.experts + e)];
    }
    for (const auto& exec : exec_widths()) {
      kernels::moe_sequence_sums(exec, balanced.sums, chosen, probabilities, token_weights, balanced.first_token,
                                 balanced.seq);
      const auto got = balanced.sums.get();
      EXPECT_TRUE(same_bits(Doubles(got.begin(), got.begin() + half), counts));
      EXPECT_TRUE(all_close(Doubles(got.begin() + half, got.end()), sums, {1e-6}));
    }
  }
}

/// Long sequences, so that a group of the sum has many tokens.
TEST(MoeBalance, LongSequence) {
  const std::int64_t tokens = 3000, experts = 3;
  const auto probabilities = Buffer::normal({tokens, experts}, DType::fp32, 1);
  const Buffer chosen({tokens, 1}, DType::i32, 2.0), sums({2, 1, experts}, DType::fp32), ones({tokens}, DType::fp32, 1);
  kernels::moe_sequence_sums(Exec(), sums, chosen, probabilities, ones, 0, tokens);
  const auto p = probabilities.get();
  Doubles want{0, 0, 3000, 0, 0, 0};
  for (std::size_t i = 0; i < p.size(); ++i) want[3 + i % 3] += p[i];
  EXPECT_TRUE(all_close(sums.get(), want, {1e-6, 1e-4}));  // terms cancel
}

TEST(MoeBalance, AddsTheBalance) {
  for (const std::int64_t experts : {1, 5, 128}) {
    const std::int64_t sequences = 3, per_token = 2, seq = 50, half = sequences * experts;
    const auto sums = Buffer::normal({2, sequences, experts}, DType::fp32, 4);
    const auto values = sums.get();
    double want = 0;
    for (std::int64_t i = 0; i < half; ++i) {
      want += static_cast<double>(experts) / (2.0 * 50.0) * values[at(i)] * values[at(half + i)] / 50.0;
    }
    const Total total;
    kernels::moe_balance(Exec(), total, sums, 0.25, per_token, seq);
    EXPECT_NEAR(total.get(), 0.25 * want, 1e-12);
    kernels::moe_balance(Exec(), total, sums, 0.5, per_token, seq);
    EXPECT_NEAR(total.get(), 0.75 * want, 1e-12);
  }
}

TEST(MoeErrors, SaysWhatDoesNotFit) {
  const Buffer f({4, 3}, DType::fp32), i({4, 2}, DType::i32), w({4, 2}, DType::fp32), t({4}, DType::fp32);
  const Buffer many({4, 65}, DType::i32), wide({4, 4}, DType::fp32), sums({2, 1, 3}, DType::fp32);
  EXPECT_THROW(kernels::moe_route(Exec(), {f, i, f}, f, true), base::Error);
  EXPECT_THROW(kernels::moe_route(Exec(), {wide, i, w}, f, true), base::Error);
  EXPECT_THROW(kernels::moe_route(Exec(), {f, many, w}, f, true), base::Error);
  EXPECT_THROW(kernels::moe_sequence_sums(Exec(), sums, i, f, t, 1, 4), base::Error);
  EXPECT_THROW(kernels::moe_route_backward(Exec(), f, w, {f, i, w}, {sums, 1, 4, 1}, t), base::Error);
  EXPECT_THROW(kernels::moe_draw(Exec(), i, {.experts = 1}), base::Error);
  EXPECT_THROW(kernels::moe_draw(Exec(), i, {.experts = 4096}), base::Error);
  EXPECT_THROW(kernels::moe_draw(Exec(), i, {.skew = -1, .experts = 4}), base::Error);
  EXPECT_THROW(kernels::moe_gather_rows(Exec(), f, wide, Buffer({4}, DType::i32), 1), base::Error);
  EXPECT_THROW(kernels::moe_combine(Exec(), f, wide, f, i), base::Error);
  EXPECT_THROW(kernels::moe_swiglu_forward(Exec(), f, f, t), base::Error);
  const Buffer five({2 + kernels::kMoeSums}, DType::i32);
  EXPECT_THROW(kernels::moe_count(Exec(), five, i, {0, 4, 1}), base::Error);  // 4 ranks, 2 experts
  EXPECT_THROW(kernels::moe_count(Exec(), five, Buffer({2, 2}, DType::i32), {2, 4, 1}), base::Error);  // no such rank
  EXPECT_THROW(kernels::moe_count(Exec(), i, Buffer({2, 2}, DType::i32), {0, 4, 1}), base::Error);
}

}  // namespace
}  // namespace shard8::tests
