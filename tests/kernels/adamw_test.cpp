// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/adamw.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.hpp"
#include "tests/kernels/adamw_scalars.hpp"
#include "tests/kernels/buffer.hpp"
#include "tests/support/compare.hpp"

namespace shard8::tests {
namespace {

using Doubles = std::vector<double>;

TEST(Adamw, EqualsDoublePrecisionOverManySteps) {
  for (const std::int64_t n : {1, 63, 5003}) {
    const auto p = Buffer::normal({n}, DType::fp32, 1);
    const Buffer m({n}, DType::fp32), v({n}, DType::fp32);
    auto pd = p.get();
    Doubles md(pd.size()), vd(pd.size());
    for (std::int64_t step = 0; step < 12; ++step) {
      const kernels::AdamwScalars s = adamw_scalars(step);
      const auto g = Buffer::normal({n}, DType::fp32, static_cast<unsigned>(step) + 2);
      const auto gd = g.get();
      kernels::adamw_step(Exec(), {p, {}, m, v, g}, s);
      for (std::size_t i = 0; i < pd.size(); ++i) {
        const double gi = gd[i] * s.gradient_scale, count = static_cast<double>(step + 1);
        md[i] = s.beta1 * md[i] + (1 - s.beta1) * gi;
        vd[i] = s.beta2 * vd[i] + (1 - s.beta2) * gi * gi;
        const double m_hat = md[i] / (1 - std::pow(s.beta1, count)), v_hat = vd[i] / (1 - std::pow(s.beta2, count));
        pd[i] = pd[i] * (1 - s.lr * s.weight_decay) - s.lr * m_hat / (std::sqrt(v_hat) + s.eps);
      }
    }
    EXPECT_TRUE(all_close(m.get(), md, {1e-6, 1e-7}));
    EXPECT_TRUE(all_close(v.get(), vd, {2e-6, 1e-9}));
    EXPECT_TRUE(all_close(p.get(), pd, {1e-6, 1e-6}));
  }
}

TEST(Adamw, FirstStepMovesByTheRate) {
  // With zero moments m̂/√v̂ is the sign of the gradient, whatever its size.
  const Buffer p({3}, DType::fp32, Doubles{1, 1, 1}), m({3}, DType::fp32), v({3}, DType::fp32);
  const Buffer g({3}, DType::fp32, Doubles{1e-3, -50, 0});
  kernels::adamw_step(Exec(), {p, {}, m, v, g}, {.lr = 0.125, .eps = 1e-12});
  EXPECT_TRUE(all_close(p.get(), Doubles{0.875, 1.125, 1}, {1e-6, 0}));
}

// The squares are those of the gradient before it is scaled; asking for them changes no other bit.
TEST(Adamw, LeavesTheSquaresOfItsGradient) {
  const ExactTotal total;
  double expected = 0;
  for (const std::int64_t n : {0, 1, 63, 5003, 8192, 8193, 100000}) {
    for (const bool emits : {false, true}) {
      const auto p = Buffer::normal({n}, DType::fp32, 1), q = Buffer::normal({n}, DType::fp32, 1);
      const auto g = Buffer::normal({n}, DType::fp32, 2);
      const Buffer m({n}, DType::fp32), v({n}, DType::fp32), m2({n}, DType::fp32), v2({n}, DType::fp32);
      const Buffer amax({1}, DType::i32, Doubles{0}), amax2({1}, DType::i32, Doubles{0});
      const Buffer parts({kernels::square_segments(n, 1) * 8}, DType::u8);
      const auto outputs = [&](const Buffer& to) {
        kernels::Outputs out;
        if (emits) out.amax = to;
        return out;
      };
      kernels::adamw_step(Exec(), {p, {}, m, v, g}, adamw_scalars(3), outputs(amax));
      kernels::adamw_step(Exec(), {q, {}, m2, v2, g, parts}, adamw_scalars(3), outputs(amax2));
      EXPECT_EQ(p.get(), q.get());
      EXPECT_EQ(m.get(), m2.get());
      EXPECT_EQ(v.get(), v2.get());
      EXPECT_EQ(amax.get(), amax2.get());
      for (const double x : g.get()) expected += x * x;
      kernels::add_square_parts(Exec(), total, parts);
    }
  }
  EXPECT_NEAR(total.get(), expected, 1e-13 * expected);
  const Buffer g({9}, DType::fp32), few({4}, DType::u8);
  EXPECT_THROW(kernels::adamw_step(Exec(), {g, {}, g, g, g, few}, adamw_scalars(0)), base::Error);
}

}  // namespace
}  // namespace shard8::tests
