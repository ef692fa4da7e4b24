// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/kokkos/fast_math.hpp"

#include <gtest/gtest.h>

#include <Kokkos_Core.hpp>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "tests/kernels/buffer.hpp"

namespace shard8::tests {
namespace {

/// The distance from the exact value, in units of the last place of the fp32 number nearest to it.
double ulps(float got, double exact) {
  const auto nearest = static_cast<float>(exact);
  const double unit = std::ldexp(1.0, std::max(std::ilogb(nearest), -126) - 23);
  return std::abs(static_cast<double>(got) - exact) / unit;
}

/// The worst distance over every `stride`-th fp32 number of [low, high].
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
  // Rounding may make the function decrease by one unit, never by more.
  for (std::uint32_t bits = std::bit_cast<std::uint32_t>(0.5f); bits < std::bit_cast<std::uint32_t>(0.75f); ++bits) {
    const float a = kernels::fast_exp(std::bit_cast<float>(bits)),
                b = kernels::fast_exp(std::bit_cast<float>(bits + 1));
    ASSERT_GE(b, std::nextafter(a, 0.0f)) << std::bit_cast<float>(bits);
  }
}

/// Evaluates f where kernels run.
template <class F>
std::vector<float> in_kernel(const std::vector<float>& x, const F& f) {
  const auto count = static_cast<std::int64_t>(x.size());
  const Buffer in({count}, DType::fp32), out({count}, DType::fp32);
  store(in, x);
  const float* from = in.tensor().as<float>();
  float* to = out.tensor().as<float>();
  Kokkos::parallel_for(
      "shard8::tests::fast_math", Kokkos::RangePolicy<Exec>(0, count), KOKKOS_LAMBDA(int i) { to[i] = f(from[i]); });
  return stored<float>(out);
}
struct Exp {
  KOKKOS_FUNCTION float operator()(float x) const { return kernels::fast_exp(x); }
};
struct Sigmoid {
  KOKKOS_FUNCTION float operator()(float x) const { return kernels::fast_sigmoid(x); }
};

TEST(FastExp, IsAsGoodInKernels) {
  const float inf = std::numeric_limits<float>::infinity();
  std::vector<float> x;
  for (int i = 0; i <= 500'000; ++i) x.push_back(-87.33f + 175.7f * (static_cast<float>(i) / 500'000));
  for (int i = 0; i <= 500'000; ++i) x.push_back(-1.0f + static_cast<float>(i) / 250'000);
  const auto got = in_kernel(x, Exp{});
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) worst = std::max(worst, ulps(got[i], std::exp(static_cast<double>(x[i]))));
  EXPECT_LE(worst, tensor::kDevice ? 4.0 : 2.0);
  const auto ends = in_kernel({0.0f, -0.0f, -inf, -88.0f, -1e30f, inf, 89.0f, 88.5f, 1e30f}, Exp{});
  EXPECT_EQ(ends, (std::vector<float>{1, 1, 0, 0, 0, inf, inf, inf, inf}));
  EXPECT_TRUE(std::isnan(in_kernel({std::numeric_limits<float>::quiet_NaN()}, Exp{})[0]));
}

TEST(FastSigmoid, IsAsGoodInKernels) {
  const float inf = std::numeric_limits<float>::infinity();
  std::vector<float> x;
  for (int i = 0; i <= 500'000; ++i) x.push_back(-87.0f + 174.0f * (static_cast<float>(i) / 500'000));
  const auto got = in_kernel(x, Sigmoid{});
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    worst = std::max(worst, ulps(got[i], 1 / (1 + std::exp(-static_cast<double>(x[i])))));
  }
  EXPECT_LE(worst, tensor::kDevice ? 8.0 : 4.0);
  EXPECT_EQ(in_kernel({0.0f, 200.0f, -200.0f, inf, -inf}, Sigmoid{}), (std::vector<float>{0.5f, 1, 0, 1, 0}));
  EXPECT_TRUE(std::isnan(in_kernel({std::numeric_limits<float>::quiet_NaN()}, Sigmoid{})[0]));
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
