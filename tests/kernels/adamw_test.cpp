// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/adamw.hpp"

#include <gtest/gtest.h>

#include <cmath>

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

}  // namespace
}  // namespace shard8::tests
