// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/elementwise.hpp"
#include "kernels/moe.hpp"
#include "tests/kernels/moe_cases.hpp"
#include "tests/support/compare.hpp"

namespace shard8::tests {
namespace {

/// The order that moe_sort() must find: the pairs of tokens that are not padding, sorted by expert.
std::vector<std::int32_t> order_of(const Doubles& chosen, const Doubles& token_weights, std::int64_t per_token) {
  std::vector<std::int32_t> order;
  for (std::size_t p = 0; p < chosen.size(); ++p) {
    if (token_weights[p / at(per_token)] != 0) order.push_back(static_cast<std::int32_t>(p));
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int32_t a, std::int32_t b) { return chosen[at(a)] < chosen[at(b)]; });
  return order;
}

void expect_sorted(const MoeCase& c, const Buffer& chosen, const Buffer& token_weights) {
  const auto experts = chosen.get();
  const auto order = order_of(experts, token_weights.get(), c.per_token);
  Doubles counts(at(c.experts)), position(experts.size(), -1), source(experts.size(), -7);
  for (std::size_t i = 0; i < order.size(); ++i) {
    ++counts[static_cast<std::size_t>(experts[at(order[i])])];
    position[at(order[i])] = static_cast<double>(i);
    source[i] = order[i];
  }
  for (const auto& exec : exec_widths()) {
    const Buffer got_counts({c.experts}, DType::i32, 9), got_position(chosen.shape(), DType::i32, 9);
    const Buffer got_source({c.tokens * c.per_token}, DType::i32, -7);
    kernels::moe_sort(exec, got_counts, got_position, got_source, chosen, token_weights);
    EXPECT_TRUE(same_bits(got_counts.get(), counts));
    EXPECT_TRUE(same_bits(got_position.get(), position));
    EXPECT_TRUE(same_bits(got_source.get(), source));
  }
}

TEST(MoeSort, IsStableAndLeavesPaddingOut) {
  for (const auto& c : kMoeCases) {
    SCOPED_TRACE(::testing::Message() << c.per_token << " of " << c.experts << ", tokens " << c.tokens);
    const auto chosen = moe_chosen(c, 1);
    expect_sorted(c, chosen, moe_token_weights(c.tokens));
    expect_sorted(c, chosen, Buffer({c.tokens}, DType::fp32, 0.5));
    expect_sorted(c, chosen, Buffer({c.tokens}, DType::fp32, 0));
  }
}

/// All tokens choose the same expert, the last one.
TEST(MoeSort, OneExpertHasAll) {
  const MoeCase c{4100, 9, 1};
  expect_sorted(c, Buffer({c.tokens, 1}, DType::i32, 8), moe_token_weights(c.tokens));
}

/// Lengths of rows: single elements, no whole packs, whole packs, several blocks of a host's sums.
const std::vector<std::int64_t> kHidden{1, 7, 64, 520};

class MoeRows : public ::testing::TestWithParam<DType> {
 protected:
  DType dtype_ = GetParam();
};

/// Rows that are gathered, with one and three experts a token. Not in the test: with AddressSanitizer's check of stacks
/// after return GCC 12 takes the lists from a place where they are not.
const Doubles kOnes{4, 0, 1, 1, 2, 2, 3, 0}, kThrees{14, 0, 3, 3, 7, 2, 14, 13};

TEST_P(MoeRows, GatherCopies) {
  for (const std::int64_t hidden : kHidden) {
    for (const std::int64_t per_token : {1, 3}) {
      const auto x = Buffer::normal({5, hidden}, dtype_, 1, 40);
      const Doubles& tokens = per_token == 1 ? kOnes : kThrees;
      const Buffer y({8, hidden}, dtype_, 9);
      kernels::moe_gather_rows(Exec(), y, x, Buffer({8}, DType::i32, tokens), per_token);
      Doubles want;
      const auto rows = x.get();
      for (const double s : tokens) {
        const auto from = rows.begin() + static_cast<std::int64_t>(s) / per_token * hidden;
        want.insert(want.end(), from, from + hidden);
      }
      EXPECT_TRUE(same_bits(y.get(), want));
      kernels::moe_gather_rows(Exec(), Buffer({0, hidden}, dtype_), x, Buffer({0}, DType::i32), per_token);
    }
  }
}

TEST_P(MoeRows, GatherWritesZerosForNoRow) {
  for (const std::int64_t hidden : kHidden) {
    for (const std::int64_t per_token : {1, 3}) {
      const auto x = Buffer::normal({2, hidden}, dtype_, 1, 40);
      const Buffer y({3, hidden}, dtype_, 9);
      kernels::moe_gather_rows(Exec(), y, x, Buffer({3}, DType::i32, Doubles{-1, double(per_token), -1}), per_token);
      Doubles want(at(3 * hidden), 0.0);
      const auto rows = x.get();
      std::copy(rows.begin() + hidden, rows.end(), want.begin() + hidden);
      EXPECT_TRUE(same_bits(y.get(), want));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, MoeRows, ::testing::Values(DType::fp32, DType::bf16, DType::e4m3));

TEST(MoeValues, GatherAndCombine) {
  const Buffer x({4}, DType::fp32, Doubles{1.5, 2.5, 3.5, 4.5}), y({3}, DType::fp32), z({3, 2}, DType::fp32, 9);
  kernels::moe_gather_values(Exec(), y, x, Buffer({3}, DType::i32, Doubles{3, 0, 3}));
  EXPECT_TRUE(same_bits(y.get(), Doubles{4.5, 1.5, 4.5}));
  kernels::moe_gather_values(Exec(), y, x, Buffer({3}, DType::i32, Doubles{-1, 2, -1}));
  EXPECT_TRUE(same_bits(y.get(), Doubles{0, 3.5, 0}));
  kernels::moe_combine_values(Exec(), z, x, Buffer({3, 2}, DType::i32, Doubles{1, 0, -1, -1, 3, 2}));
  EXPECT_TRUE(same_bits(z.get(), Doubles{2.5, 1.5, 0, 0, 4.5, 3.5}));
  kernels::moe_combine_values(Exec(), z, Buffer({0}, DType::fp32), Buffer({3, 2}, DType::i32, -1));
  EXPECT_TRUE(same_bits(z.get(), Doubles(6, 0.0)));
}

class MoeCombine : public ::testing::TestWithParam<DType> {
 protected:
  DType dtype_ = GetParam();

  /// The sums in fp32, from k = 0 up, then the addend, rounded once.
  Doubles sums(const Buffer& addend, bool add, const Buffer& rows, const Buffer& position) const {
    const auto hidden = addend.shape()[1], per_token = position.shape()[1];
    const auto more = addend.get(), in = rows.get(), place = position.get();
    Doubles out(more.size());
    for (std::size_t i = 0; i < out.size(); ++i) {
      const auto t = static_cast<std::int64_t>(i) / hidden, column = static_cast<std::int64_t>(i) % hidden;
      float sum = 0;
      for (std::int64_t k = 0; k < per_token; ++k) {
        const auto row = static_cast<std::int64_t>(place[at(t * per_token + k)]);
        if (row >= 0) sum += static_cast<float>(in[at(row * hidden + column)]);
      }
      out[i] = static_cast<double>(add ? static_cast<float>(more[i]) + sum : sum);
    }
    return Buffer(addend.shape(), dtype_, out).get();
  }
};

TEST_P(MoeCombine, AddsInOrder) {
  for (const auto& c : kMoeCases) {
    for (const std::int64_t hidden : kHidden) {
      SCOPED_TRACE(::testing::Message() << c.per_token << " per token, tokens " << c.tokens << ", hidden " << hidden);
      const auto pairs = c.tokens * c.per_token;
      const Buffer counts({c.experts}, DType::i32), position({c.tokens, c.per_token}, DType::i32);
      kernels::moe_sort(Exec(), counts, position, Buffer({pairs}, DType::i32), moe_chosen(c, 1),
                        moe_token_weights(c.tokens));
      const auto rows = Buffer::normal({pairs, hidden}, dtype_, 2),
                 addend = Buffer::normal({c.tokens, hidden}, dtype_, 3);
      const Buffer y({c.tokens, hidden}, dtype_, 9);
      kernels::moe_combine(Exec(), y, {}, rows, position);
      EXPECT_TRUE(same_bits(y.get(), sums(addend, false, rows, position)));
      const auto want = sums(addend, true, rows, position);
      kernels::moe_combine(Exec(), y, addend, rows, position);
      EXPECT_TRUE(same_bits(y.get(), want));
      kernels::moe_combine(Exec(), addend, addend, rows, position);
      EXPECT_TRUE(same_bits(addend.get(), want));
    }
  }
}

TEST_P(MoeCombine, NoRows) {
  const Buffer y({3, 24}, dtype_, 9), none({0, 24}, dtype_), position({3, 2}, DType::i32, -1);
  const auto addend = Buffer::normal({3, 24}, dtype_, 1);
  kernels::moe_combine(Exec(), y, addend, none, position);
  EXPECT_TRUE(same_bits(y.get(), addend.get()));
  kernels::moe_combine(Exec(), y, {}, none, position);
  EXPECT_TRUE(same_bits(y.get(), Doubles(72, 0.0)));
}

INSTANTIATE_TEST_SUITE_P(, MoeCombine, ::testing::Values(DType::fp32, DType::bf16));

class MoeSwiglu : public ::testing::TestWithParam<DType> {
 protected:
  DType dtype_ = GetParam();
};

TEST_P(MoeSwiglu, EqualsTheFormula) {
  for (const std::int64_t ffn : {1, 7, 64, 1032}) {
    for (const std::int64_t rows : {0, 1, 5}) {
      SCOPED_TRACE(::testing::Message() << rows << " rows of " << ffn);
      const auto gate_up = Buffer::normal({rows, 2 * ffn}, dtype_, 1, 2), da = Buffer::normal({rows, ffn}, dtype_, 2);
      const auto weights = Buffer::normal({rows}, DType::fp32, 3);
      const auto x = gate_up.get(), d = da.get(), w = weights.get();
      Doubles want_a(at(rows * ffn)), want_d(at(2 * rows * ffn)), want_w(at(rows));
      for (std::int64_t i = 0; i < rows * ffn; ++i) {
        const auto r = i / ffn, at_gate = r * 2 * ffn + i % ffn;
        const double g = x[at(at_gate)], u = x[at(at_gate + ffn)], s = 1 / (1 + std::exp(-g));
        want_a[at(i)] = w[at(r)] * g * s * u;
        want_d[at(at_gate)] = d[at(i)] * w[at(r)] * u * s * (1 + g * (1 - s));
        want_d[at(at_gate + ffn)] = d[at(i)] * w[at(r)] * g * s;
        want_w[at(r)] += d[at(i)] * g * s * u;
      }
      const Tolerance tolerance{rounding(dtype_) + 2e-6, 1e-6};
      const Buffer a({rows, ffn}, dtype_, 9), again({rows, ffn}, dtype_, 9), dgate_up({rows, 2 * ffn}, dtype_, 9);
      const Buffer dweights({rows}, DType::fp32, 9);
      kernels::moe_swiglu_forward(Exec(), a, gate_up, weights);
      EXPECT_TRUE(all_close(a.get(), want_a, tolerance));
      kernels::moe_swiglu_backward(Exec(), dgate_up, dweights, da, gate_up, weights);
      EXPECT_TRUE(all_close(dgate_up.get(), want_d, tolerance));
      // On a device the sigmoids of bf16 are within 2^-17.
      EXPECT_TRUE(all_close(dweights.get(), want_w, {1e-5, 1e-4}));
      const auto first = dgate_up.get(), sums = dweights.get();
      for (const auto& exec : exec_widths()) {
        kernels::moe_swiglu_backward(exec, dgate_up, dweights, da, gate_up, weights, again);
        EXPECT_TRUE(same_bits(dgate_up.get(), first));
        EXPECT_TRUE(same_bits(dweights.get(), sums));
        EXPECT_TRUE(same_bits(again.get(), a.get()));
      }
      kernels::moe_swiglu_backward(Exec(), gate_up, dweights, da, gate_up, weights, da);
      EXPECT_TRUE(same_bits(gate_up.get(), first));
      EXPECT_TRUE(same_bits(dweights.get(), sums));
      EXPECT_TRUE(same_bits(da.get(), a.get()));
    }
  }
}

TEST_P(MoeSwiglu, WeightOneIsSwiglu) {
  const std::int64_t rows = 6, ffn = 136;
  const auto gate_up = Buffer::normal({rows, 2 * ffn}, dtype_, 1, 3), da = Buffer::normal({rows, ffn}, dtype_, 2);
  const Buffer ones({rows}, DType::fp32, 1), dweights({rows}, DType::fp32);
  const Buffer a({rows, ffn}, dtype_), want_a({rows, ffn}, dtype_, 9);
  const Buffer d({rows, 2 * ffn}, dtype_), want_d({rows, 2 * ffn}, dtype_, 9);
  kernels::moe_swiglu_forward(Exec(), a, gate_up, ones);
  kernels::swiglu_forward(Exec(), want_a, gate_up);
  EXPECT_TRUE(same_bits(a.get(), want_a.get()));
  kernels::moe_swiglu_backward(Exec(), d, dweights, da, gate_up, ones);
  kernels::swiglu_backward(Exec(), want_d, da, gate_up);
  EXPECT_TRUE(same_bits(d.get(), want_d.get()));
}

INSTANTIATE_TEST_SUITE_P(, MoeSwiglu, ::testing::Values(DType::fp32, DType::bf16));

}  // namespace
}  // namespace shard8::tests
