// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/elementwise.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "tests/kernels/buffer.hpp"
#include "tests/support/compare.hpp"

namespace shard8::tests {
namespace {

using Doubles = std::vector<double>;

double silu(double x) { return x / (1 + std::exp(-x)); }
double silu_slope(double x) {
  const double s = 1 / (1 + std::exp(-x));
  return s * (1 + x * (1 - s));
}
double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}
double gelu_slope(double x) {
  const double c = std::sqrt(2 / std::numbers::pi), t = std::tanh(c * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x);
}

const std::vector<Shape> kShapes{{1, 1}, {3, 7}, {33, 65}, {5, 1408}, {129, 100}};

class Activation : public ::testing::TestWithParam<DType> {
 protected:
  Exec exec_;
  DType dtype_ = GetParam();
};
class Swiglu : public Activation {};
class Gelu : public Activation {};

TEST_P(Swiglu, EqualsDoublePrecision) {
  for (const auto& shape : kShapes) {
    SCOPED_TRACE(to_string(shape));
    const auto gate_up = Buffer::normal({shape[0], 2 * shape[1]}, dtype_, 1, 4);
    const auto da = Buffer::normal(shape, dtype_, 2);
    const Buffer a(shape, dtype_), dgate_up(gate_up.shape(), dtype_);
    kernels::swiglu_forward(exec_, a, gate_up);
    kernels::swiglu_backward(exec_, dgate_up, da, gate_up);
    const auto in = gate_up.get(), d = da.get();
    Doubles want(d.size()), dwant(in.size());
    const auto f = static_cast<std::size_t>(shape[1]);
    for (std::size_t i = 0; i < d.size(); ++i) {
      const auto gate = i / f * 2 * f + i % f, up = gate + f;
      want[i] = silu(in[gate]) * in[up];
      dwant[gate] = d[i] * in[up] * silu_slope(in[gate]);
      dwant[up] = d[i] * silu(in[gate]);
    }
    EXPECT_TRUE(all_close(a.get(), want, {rounding(dtype_) + 1e-6, 1e-7}));
    EXPECT_TRUE(all_close(dgate_up.get(), dwant, {rounding(dtype_) + 1e-6, 1e-6}));
    kernels::swiglu_backward(exec_, gate_up, da, gate_up);
    EXPECT_TRUE(same_bits(gate_up.get(), dgate_up.get())) << "in place";
  }
}

TEST_P(Gelu, EqualsDoublePrecision) {
  for (const auto& shape : kShapes) {
    SCOPED_TRACE(to_string(shape));
    const auto x = Buffer::normal(shape, dtype_, 1, 3), da = Buffer::normal(shape, dtype_, 2);
    const Buffer a(shape, dtype_), dx(shape, dtype_);
    kernels::gelu_forward(exec_, a, x);
    kernels::gelu_backward(exec_, dx, da, x);
    const auto in = x.get(), d = da.get();
    Doubles want(in.size()), dwant(in.size());
    for (std::size_t i = 0; i < in.size(); ++i) {
      want[i] = gelu(in[i]);
      dwant[i] = d[i] * gelu_slope(in[i]);
    }
    EXPECT_TRUE(all_close(a.get(), want, {rounding(dtype_) + 1e-6, 1e-6}));
    EXPECT_TRUE(all_close(dx.get(), dwant, {rounding(dtype_) + 1e-6, 2e-6}));
    kernels::gelu_backward(exec_, x, da, x);
    EXPECT_TRUE(same_bits(x.get(), dx.get())) << "in place";
  }
}

TEST_P(Gelu, FarFromZeroIsFinite) {
  const Buffer x({1, 4}, dtype_, Doubles{-1e4, -50, 50, 1e4}), one({1, 4}, dtype_, 1.0), a({1, 4}, dtype_),
      dx({1, 4}, dtype_);
  kernels::gelu_forward(exec_, a, x);
  kernels::gelu_backward(exec_, dx, one, x);
  EXPECT_TRUE(all_close(a.get(), Doubles{0, 0, x.get()[2], x.get()[3]}, {1e-7, 1e-30}));
  EXPECT_TRUE(all_close(dx.get(), Doubles{0, 0, 1, 1}, {1e-7, 1e-30}));
}

INSTANTIATE_TEST_SUITE_P(, Swiglu, ::testing::Values(DType::fp32, DType::bf16));
INSTANTIATE_TEST_SUITE_P(, Gelu, ::testing::Values(DType::fp32, DType::bf16));

TEST(ActivationReference, SlopesAreDerivatives) {
  for (double x = -6; x < 6; x += 0.37) {
    const double h = 1e-5;
    EXPECT_NEAR((silu(x + h) - silu(x - h)) / (2 * h), silu_slope(x), 1e-9) << x;
    EXPECT_NEAR((gelu(x + h) - gelu(x - h)) / (2 * h), gelu_slope(x), 1e-9) << x;
  }
}

}  // namespace
}  // namespace shard8::tests
