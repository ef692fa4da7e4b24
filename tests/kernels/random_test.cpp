// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/elementwise.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "tests/kernels/buffer.hpp"
#include "tests/support/compare.hpp"

namespace shard8::tests {
namespace {

using kernels::GlobalIndex;
using Doubles = std::vector<double>;

TEST(NormalFill, DoesNotDependOnTheBox) {
  const std::int64_t rows = 37, cols = 53;
  const auto key = kernels::random_key(1, "model.layers.0.mlp.up_proj.weight");
  const Buffer whole({rows, cols}, DType::fp32);
  kernels::normal_fill(Exec(), whole, key, {0, cols, 1}, 0.02);
  const auto want = whole.get();
  for (const auto& exec : exec_widths()) {
    for (const auto& [r0, nr, c0, nc] : {std::array<std::int64_t, 4>{0, 37, 0, 53}, {5, 1, 0, 53}, {30, 7, 13, 20}}) {
      const Buffer box({nr, nc}, DType::fp32), transposed({nc, nr}, DType::fp32);
      kernels::normal_fill(exec, box, key, {r0 * cols + c0, cols, 1}, 0.02);
      kernels::normal_fill(exec, transposed, key, {r0 * cols + c0, 1, cols}, 0.02);
      const auto values = box.get(), columns = transposed.get();
      for (std::int64_t r = 0; r < nr; ++r) {
        for (std::int64_t c = 0; c < nc; ++c) {
          const auto expected = want[static_cast<std::size_t>((r0 + r) * cols + c0 + c)];
          ASSERT_EQ(values[static_cast<std::size_t>(r * nc + c)], expected) << r << " " << c;
          ASSERT_EQ(columns[static_cast<std::size_t>(c * nr + r)], expected) << r << " " << c;
        }
      }
    }
  }
}

TEST(NormalFill, IsNormal) {
  const std::int64_t n = 1'000'000;
  const double sigma = 0.02;
  const Buffer out({1, n}, DType::fp32);
  kernels::normal_fill(Exec(), out, kernels::random_key(7, "w"), {0, n, 1}, sigma);
  auto x = out.get();
  double moments[5] = {};
  for (auto& v : x) {
    v /= sigma;
    for (int k = 1; k <= 4; ++k) moments[k] += std::pow(v, k) / static_cast<double>(n);
  }
  // Five standard errors of each moment's estimate: sqrt(var(x^k)/n) with variances 1, 2, 15, 96.
  EXPECT_NEAR(moments[1], 0, 5e-3);
  EXPECT_NEAR(moments[2], 1, 5 * std::sqrt(2.0) * 1e-3);
  EXPECT_NEAR(moments[3], 0, 5 * std::sqrt(15.0) * 1e-3);
  EXPECT_NEAR(moments[4], 3, 5 * std::sqrt(96.0) * 1e-3);
  // Kolmogorov-Smirnov: 2.2/sqrt(n) is exceeded once in 10^4 keys.
  std::sort(x.begin(), x.end());
  double distance = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double cdf = 0.5 * std::erfc(-x[i] / std::sqrt(2.0));
    distance = std::max(distance, std::abs(cdf - (static_cast<double>(i) + 0.5) / static_cast<double>(n)));
  }
  EXPECT_LT(distance, 2.2e-3);
}

TEST(NormalFill, NeighboursAndKeysAreUncorrelated) {
  const std::int64_t n = 200'000;
  const Buffer a({1, n}, DType::fp32), b({1, n}, DType::fp32);
  kernels::normal_fill(Exec(), a, kernels::random_key(0, "a"), {0, n, 1}, 1);
  kernels::normal_fill(Exec(), b, kernels::random_key(0, "b"), {0, n, 1}, 1);
  const auto x = a.get(), y = b.get();
  double keys = 0, neighbours = 0, squares = 0;
  for (std::size_t i = 0; i + 1 < x.size(); ++i) {
    keys += x[i] * y[i];
    neighbours += x[i] * x[i + 1];
    squares += (x[i] * x[i] - 1) * (x[i + 1] * x[i + 1] - 1) / 2;
  }
  const double bound = 5 * std::sqrt(static_cast<double>(n));
  EXPECT_LT(std::abs(keys), bound);
  EXPECT_LT(std::abs(neighbours), bound);
  EXPECT_LT(std::abs(squares), bound);
}

TEST(RandomKey, DependsOnSeedAndName) {
  const auto key = kernels::random_key(1, "model.norm.weight");
  EXPECT_EQ(key, kernels::random_key(1, "model.norm.weight"));
  EXPECT_NE(key, kernels::random_key(2, "model.norm.weight"));
  EXPECT_NE(key, kernels::random_key(1, "model.norm.weighu"));
}

}  // namespace
}  // namespace shard8::tests
