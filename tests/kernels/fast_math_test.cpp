// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/kokkos/fast_math.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace shard8::tests {
namespace {

/// Distance from the exact value in units of the last place of the fp32 nearest to it.
double ulps(float got, double exact) {
  const auto nearest = static_cast<float>(exact);
  const double unit = std::ldexp(1.0, std::max(std::ilogb(nearest), -126) - 23);
  return std::abs(static_cast<double>(got) - exact) / unit;
}

/// The worst over every `stride`-th fp32 of [low, high].
template <class F, class Exact>
std::pair<double, float> worst_ulps(float low, float high, int steps, const F& f, const Exact& exact) {
  std::pair<double, float> worst{0, 0};
  for (int i = 0; i <= steps; ++i) {
    const float x = low + (high - low) * (static_cast<float>(i) / static_cast<float>(steps));
    const double error = ulps(f(x), exact(static_cast<double>(x)));
    if (!(error <= worst.first)) worst = {error, x};
  }
  return worst;
}

TEST(FastExp, IsWithinTwoUlp) {
  const auto exact = [](double x) { return std::exp(x); };
  for (const auto& [low, high] : {std::pair{-87.33f, 88.37f}, {-1.0f, 1.0f}, {-1e-3f, 1e-3f}, {-20.0f, 0.0f}}) {
    const auto [error, at] = worst_ulps(low, high, 2'000'000, kernels::fast_exp, exact);
    EXPECT_LE(error, 2.0) << "at " << at;
    EXPECT_GT(error, 0.4) << "the sweep saw no rounding at all";
  }
}

TEST(FastExp, EndsOfTheRange) {
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(kernels::fast_exp(0.0f), 1.0f);
  EXPECT_EQ(kernels::fast_exp(-0.0f), 1.0f);
  EXPECT_EQ(kernels::fast_exp(-inf), 0.0f);
  EXPECT_EQ(kernels::fast_exp(-88.0f), 0.0f);
  EXPECT_EQ(kernels::fast_exp(-1e30f), 0.0f);
  EXPECT_GT(kernels::fast_exp(-87.33f), std::numeric_limits<float>::min());
  EXPECT_EQ(kernels::fast_exp(inf), inf);
  EXPECT_EQ(kernels::fast_exp(89.0f), inf);
  EXPECT_EQ(kernels::fast_exp(1e30f), inf);
  EXPECT_TRUE(std::isfinite(kernels::fast_exp(88.37f)));
  for (const std::uint32_t bits : {0x7fc00000u, 0xffc00000u, 0xffffffffu, 0x7f800001u}) {
    EXPECT_TRUE(std::isnan(kernels::fast_exp(std::bit_cast<float>(bits)))) << bits;
  }
}

TEST(FastExp, RisesFromEveryFloatToTheNextUpToAnUlp) {
  // Rounding may make it fall by a unit, never by more.
  for (std::uint32_t bits = std::bit_cast<std::uint32_t>(0.5f); bits < std::bit_cast<std::uint32_t>(0.75f); ++bits) {
    const float a = kernels::fast_exp(std::bit_cast<float>(bits)),
                b = kernels::fast_exp(std::bit_cast<float>(bits + 1));
    ASSERT_GE(b, std::nextafter(a, 0.0f)) << std::bit_cast<float>(bits);
  }
}

TEST(FastSigmoid, IsWithinFourUlp) {
  const auto exact = [](double x) { return 1 / (1 + std::exp(-x)); };
  const auto [error, at] = worst_ulps(-87.0f, 87.0f, 2'000'000, kernels::fast_sigmoid, exact);
  EXPECT_LE(error, 4.0) << "at " << at;
  EXPECT_EQ(kernels::fast_sigmoid(0.0f), 0.5f);
  EXPECT_EQ(kernels::fast_sigmoid(200.0f), 1.0f);
  EXPECT_EQ(kernels::fast_sigmoid(-200.0f), 0.0f);
  EXPECT_TRUE(std::isnan(kernels::fast_sigmoid(std::numeric_limits<float>::quiet_NaN())));
}

}  // namespace
}  // namespace shard8::tests
