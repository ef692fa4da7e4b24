// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/vocabulary.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/kernels/buffer.hpp"
#include "tests/support/compare.hpp"

namespace shard8::tests {
namespace {

using Doubles = std::vector<double>;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

struct Reference {
  double loss = 0;
  Doubles dlogits;
};
/// The reference: loss = Σ_t weight·(log Σ exp − target's logit), and dlogits = scale times its gradient.
Reference reference(const Doubles& logits, const Doubles& targets, const Doubles& weights, std::int64_t vocab,
                    double scale) {
  Reference r;
  r.dlogits.resize(logits.size());
  for (std::size_t t = 0; t < targets.size(); ++t) {
    const double* row = &logits[t * at(vocab)];
    const double largest = *std::max_element(row, row + vocab);
    double sum = 0;
    for (std::int64_t i = 0; i < vocab; ++i) sum += std::exp(row[i] - largest);
    const auto target = static_cast<std::size_t>(targets[t]);
    r.loss += weights[t] * (std::log(sum) + largest - row[target]);
    for (std::size_t i = 0; i < at(vocab); ++i) {
      const double p = std::exp(row[i] - largest) / sum;
      r.dlogits[t * at(vocab) + i] = scale * weights[t] * (p - (i == target ? 1 : 0));
    }
  }
  return r;
}

struct Inputs {
  std::int64_t tokens, vocab;
  Buffer logits, targets, weights;
};
Inputs draw(std::int64_t tokens, std::int64_t vocab, double spread = 3) {
  auto logits = Buffer::normal({tokens, vocab}, DType::fp32, 1, spread);
  std::mt19937_64 engine(5);
  Doubles targets(at(tokens)), weights(at(tokens), 1);
  for (auto& t : targets) t = static_cast<double>(engine() % static_cast<std::uint64_t>(vocab));
  for (std::size_t t = 2; t < weights.size(); t += 3) weights[t] = 0;
  return {tokens, vocab, std::move(logits), {{tokens}, DType::i32, targets}, {{tokens}, DType::fp32, weights}};
}

/// Part `part` of `parts` of the columns, padded to equal widths with values that must not count.
struct Part {
  std::int64_t first, valid, width;
  Buffer logits;
};
Part cut(const Inputs& in, std::int64_t parts, std::int64_t part) {
  const auto width = (in.vocab + parts - 1) / parts, first = std::min(in.vocab, part * width);
  const auto valid = std::min(width, in.vocab - first);
  Doubles values(at(in.tokens * width), 1e30);
  const auto all = in.logits.get();
  for (std::int64_t t = 0; t < in.tokens; ++t) {
    for (std::int64_t i = 0; i < valid; ++i) values[at(t * width + i)] = all[at(t * in.vocab + first + i)];
  }
  return {first, valid, width, Buffer({in.tokens, width}, DType::fp32, values)};
}

struct Result {
  double loss = 0;
  Doubles dlogits;  ///< the parts of all ranks joined
};
Result run(const Exec& exec, const Inputs& in, std::int64_t parts, DType dtype, float scale, bool in_place) {
  const auto tokens = in.tokens;
  Doubles largest(at(tokens), -HUGE_VAL), sums(at(2 * tokens));
  for (std::int64_t p = 0; p < parts; ++p) {
    const auto part = cut(in, parts, p);
    const Buffer m({tokens}, DType::fp32);
    kernels::cross_entropy_max(exec, m, part.logits, part.valid);
    const auto values = m.get();
    for (std::size_t t = 0; t < at(tokens); ++t) largest[t] = std::max(largest[t], values[t]);
  }
  const Buffer row_max({tokens}, DType::fp32, largest);
  for (std::int64_t p = 0; p < parts; ++p) {
    const auto part = cut(in, parts, p);
    const Buffer s({2, tokens}, DType::fp32);
    kernels::cross_entropy_sums(exec, s, part.logits, row_max, in.targets, part.first, part.valid);
    const auto values = s.get();
    for (std::size_t i = 0; i < values.size(); ++i) sums[i] += values[i];
  }
  const Buffer reduced({2, tokens}, DType::fp32, sums);
  const Total total;
  kernels::cross_entropy_loss(exec, total, reduced, in.weights);
  Result r{total.get(), Doubles(at(tokens * in.vocab))};
  for (std::int64_t p = 0; p < parts; ++p) {
    const auto part = cut(in, parts, p);
    const Buffer other({tokens, part.width}, dtype, 7);
    const Buffer& d = in_place ? part.logits : other;
    kernels::cross_entropy_backward(exec, d, part.logits, row_max, reduced, in.targets, in.weights, part.first,
                                    part.valid, scale);
    const auto values = d.get();
    for (std::int64_t t = 0; t < tokens; ++t) {
      for (std::int64_t i = 0; i < part.width; ++i) {
        const double v = values[at(t * part.width + i)];
        if (i < part.valid) {
          r.dlogits[at(t * in.vocab + part.first + i)] = v;
        } else {
          EXPECT_EQ(v, 0) << "padding column " << i << " of token " << t;
        }
      }
    }
  }
  return r;
}

TEST(CrossEntropy, EqualsDoublePrecision) {
  const Exec exec;
  for (const auto& [tokens, vocab] : {std::pair{1, 1}, {1, 5}, {33, 97}, {50, 1031}, {7, 4096}}) {
    const auto in = draw(tokens, vocab);
    const auto want = reference(in.logits.get(), in.targets.get(), in.weights.get(), vocab, 0.25);
    // 7 parts of 5 columns: the last two ranks own no vocabulary at all.
    for (const std::int64_t parts : {1, 2, 3, 7}) {
      SCOPED_TRACE(::testing::Message() << tokens << " tokens, vocabulary " << vocab << " in " << parts);
      for (const bool in_place : {false, true}) {
        const auto got = run(exec, in, parts, DType::fp32, 0.25f, in_place);
        EXPECT_NEAR(got.loss, want.loss, 2e-7 * std::abs(want.loss) + 1e-6);
        EXPECT_TRUE(all_close(got.dlogits, want.dlogits, {2e-6, 1e-8}));
      }
      const auto half = run(exec, in, parts, DType::bf16, 0.25f, false);
      EXPECT_TRUE(all_close(half.dlogits, want.dlogits, {rounding(DType::bf16), 1e-8}));
    }
  }
}

TEST(CrossEntropy, LargeLogitsDoNotOverflow) {
  const auto in = draw(20, 64, 1000);
  const auto want = reference(in.logits.get(), in.targets.get(), in.weights.get(), 64, 1);
  const auto got = run(Exec(), in, 1, DType::fp32, 1.0f, true);
  EXPECT_NEAR(got.loss, want.loss, 1e-6 * want.loss);
  EXPECT_TRUE(all_close(got.dlogits, want.dlogits, {2e-6, 1e-7}));
}

TEST(CrossEntropy, PaddingTokensCountForNothing) {
  auto in = draw(3, 8);
  auto logits = in.logits.get();
  for (std::size_t i = 16; i < 24; ++i) logits[i] = NAN;  // token 2 has weight 0
  in.logits.set(logits);
  const auto got = run(Exec(), in, 1, DType::fp32, 1.0f, true);
  EXPECT_TRUE(std::isfinite(got.loss));
  for (std::size_t i = 16; i < 24; ++i) EXPECT_EQ(got.dlogits[i], 0);
}

TEST(CrossEntropy, LossDoesNotDependOnThreads) {
  const auto in = draw(3001, 3);
  const double want = run(Exec(), in, 1, DType::fp32, 1.0f, false).loss;
  for (const auto& exec : exec_widths()) EXPECT_EQ(run(exec, in, 1, DType::fp32, 1.0f, false).loss, want);
}

TEST(CrossEntropyReference, GradientIsDerivative) {
  auto logits = Buffer::normal({3, 5}, DType::fp32, 1).get();
  const Doubles targets{1, 4, 0}, weights{1, 0.5, 2};
  const auto want = reference(logits, targets, weights, 5, 1).dlogits;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const double kept = logits[i], h = 1e-5;
    logits[i] = kept + h;
    const double up = reference(logits, targets, weights, 5, 1).loss;
    logits[i] = kept - h;
    const double down = reference(logits, targets, weights, 5, 1).loss;
    logits[i] = kept;
    EXPECT_NEAR((up - down) / (2 * h), want[i], 1e-8) << i;
  }
}

}  // namespace
}  // namespace shard8::tests
