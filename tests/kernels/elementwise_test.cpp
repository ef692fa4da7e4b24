// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/elementwise.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "tests/kernels/buffer.hpp"
#include "tests/support/compare.hpp"

namespace shard8::tests {
namespace {

using Doubles = std::vector<double>;

const std::vector<Shape> kShapes{{1, 1}, {3, 7}, {33, 65}, {70, 300}};
constexpr DType kReal[] = {DType::fp32, DType::bf16};

TEST(ResidualAdd, AddsInFp32AndRoundsOnce) {
  const Exec exec;
  for (const auto& shape : kShapes) {
    for (const auto dtype : kReal) {
      SCOPED_TRACE(to_string(shape));
      const auto x = Buffer::normal(shape, dtype, 1), y = Buffer::normal(shape, dtype, 2);
      const auto bias = Buffer::normal({shape[1]}, dtype, 3);
      const Buffer out(shape, dtype);
      const auto a = x.get(), b = y.get(), c = bias.get();
      Doubles plain(a.size()), biased(a.size());
      for (std::size_t i = 0; i < a.size(); ++i) {
        const auto sum = static_cast<float>(b[i]) + static_cast<float>(c[i % c.size()]);
        plain[i] = static_cast<double>(static_cast<float>(a[i]) + static_cast<float>(b[i]));
        biased[i] = static_cast<double>(static_cast<float>(a[i]) + sum);
      }
      kernels::residual_add(exec, out, x, y, Tensor{});
      EXPECT_TRUE(same_bits(out.get(), Buffer(shape, dtype, plain).get()));
      kernels::residual_add(exec, out, x, y, bias);
      EXPECT_TRUE(same_bits(out.get(), Buffer(shape, dtype, biased).get()));
      kernels::residual_add(exec, x, x, y, bias);
      EXPECT_TRUE(same_bits(x.get(), out.get())) << "over x";
      const Buffer again(shape, dtype, a);
      kernels::residual_add(exec, y, again, y, bias);
      EXPECT_TRUE(same_bits(y.get(), out.get())) << "over y";
    }
  }
}

TEST(AddGradients, AddsInFp32) {
  for (const std::int64_t n : {0, 1, 255, 4099, 100'003}) {
    for (const auto dtype : kReal) {
      SCOPED_TRACE(n);
      const auto sum = Buffer::normal({n}, DType::fp32, 1), x = Buffer::normal({n}, dtype, 2);
      const auto a = sum.get(), b = x.get();
      Doubles want(a.size());
      for (std::size_t i = 0; i < a.size(); ++i)
        want[i] = static_cast<double>(static_cast<float>(a[i]) + static_cast<float>(b[i]));
      kernels::add_gradients(Exec(), sum, x);
      EXPECT_TRUE(same_bits(sum.get(), want));
      EXPECT_TRUE(same_bits(x.get(), b)) << "x is only read";
    }
  }
  const Buffer a({3}, DType::fp32), b({4}, DType::fp32), c({3}, DType::bf16), d({3}, DType::i32);
  EXPECT_THROW(kernels::add_gradients(Exec(), a, b), base::Error);
  EXPECT_THROW(kernels::add_gradients(Exec(), c, a), base::Error);
  EXPECT_THROW(kernels::add_gradients(Exec(), a, d), base::Error);
}

TEST(BiasGradient, IsTheSameSumOnAllThreads) {
  for (const auto& shape : {Shape{1, 3}, Shape{37, 65}, Shape{5000, 130}, Shape{1031, 2048}}) {
    for (const auto dtype : kReal) {
      const auto dy = Buffer::normal(shape, dtype, 1);
      const auto values = dy.get();
      Doubles want(static_cast<std::size_t>(shape[1]), 0.5);
      for (std::size_t i = 0; i < values.size(); ++i) want[i % want.size()] += values[i];
      const auto work = Buffer::bytes(kernels::norm_workspace_bytes(shape[0], shape[1]));
      std::vector<Doubles> got;
      for (const auto& exec : exec_widths()) {
        const Buffer db({shape[1]}, DType::fp32, 0.5);
        kernels::bias_gradient(exec, db, dy, work);
        got.push_back(db.get());
        EXPECT_TRUE(all_close(got.back(), want, {1e-6, 1e-6 * std::sqrt(static_cast<double>(shape[0]))}));
        EXPECT_TRUE(same_bits(got.back(), got.front()));
      }
    }
  }
}

/// Round to nearest even, from the definition: the nearest of the two neighbours, ties to the even.
std::uint16_t rounded(float x) {
  const auto u = std::bit_cast<std::uint32_t>(x);
  const auto low = static_cast<std::uint16_t>(u >> 16);
  if (std::isnan(x)) return static_cast<std::uint16_t>(low | 0x40);
  const std::uint32_t rest = u & 0xffff;
  const bool up = rest > 0x8000 || (rest == 0x8000 && (low & 1) != 0);
  return static_cast<std::uint16_t>(low + (up ? 1 : 0));
}

TEST(Cast, RoundsToNearestEven) {
  const float inf = std::numeric_limits<float>::infinity();
  std::vector<float> values{0.0f,
                            -0.0f,
                            1.0f,
                            0x1.01p0f,
                            0x1.03p0f,
                            0x1.010002p0f,
                            0x1.00fffep0f,
                            inf,
                            -inf,
                            std::numeric_limits<float>::quiet_NaN(),
                            std::bit_cast<float>(0x7f800001u),
                            std::numeric_limits<float>::max(),
                            std::numeric_limits<float>::denorm_min(),
                            3e-39f};
  std::mt19937 engine(1);
  while (values.size() < 100'003) values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(engine())));
  const auto n = static_cast<std::int64_t>(values.size());
  const Buffer in({n}, DType::fp32), out({n}, DType::bf16), back({n}, DType::fp32);
  store(in, values);
  kernels::cast(Exec(), out, in);
  kernels::cast(Exec(), back, out);
  const auto halves = stored<std::uint16_t>(out);
  const auto again = stored<std::uint32_t>(back);
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(halves[i], rounded(values[i])) << "[" << i << "] " << values[i];
    ASSERT_EQ(again[i], std::uint32_t{halves[i]} << 16) << i;
  }
}

TEST(Cast, CopiesEqualTypes) {
  for (const auto dtype : {DType::fp32, DType::bf16, DType::i32, DType::u8}) {
    Doubles values(3001);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i % 251);
    const Buffer in({3001}, dtype, values), out({3001}, dtype);
    kernels::cast(Exec(), out, in);
    EXPECT_TRUE(same_bits(out.get(), in.get()));
  }
  const Buffer a({3}, DType::i32), b({3}, DType::fp32), c({4}, DType::fp32);
  EXPECT_THROW(kernels::cast(Exec(), b, a), base::Error);
  EXPECT_THROW(kernels::cast(Exec(), b, c), base::Error);
}

// cast_each() equals cast() one by one: for sizes that are not whole packs, for more casts than one kernel takes, and
// for different dtypes.
TEST(Cast, EachOfSeveral) {
  for (const std::size_t many : {std::size_t{0}, std::size_t{1}, std::size_t{7}, kernels::kCastsAtOnce + 1}) {
    for (const bool alike : {true, false}) {
      std::vector<Buffer> in, out, expected;
      for (std::size_t i = 0; i < many; ++i) {
        const auto n = static_cast<std::int64_t>(i % 3 == 0 ? 8192 * i : 1001 * i + 3);
        const DType to = alike || i % 2 == 0 ? DType::bf16 : DType::fp32;
        in.push_back(Buffer::normal({n}, DType::fp32, static_cast<unsigned>(i)));
        out.emplace_back(Shape{n}, to);
        expected.emplace_back(Shape{n}, to);
        kernels::cast(Exec(), expected.back(), in.back());
      }
      std::vector<kernels::Cast> casts;
      for (std::size_t i = 0; i < many; ++i) casts.push_back({out[i], in[i]});
      kernels::cast_each(Exec(), casts);
      for (std::size_t i = 0; i < many; ++i) EXPECT_TRUE(same_bits(out[i].get(), expected[i].get())) << i;
    }
  }
  const Buffer a({3}, DType::bf16), b({4}, DType::fp32);
  EXPECT_THROW(kernels::cast_each(Exec(), std::vector<kernels::Cast>{{a, b}}), base::Error);
}

TEST(Fill, SetsEveryElement) {
  for (const auto dtype : {DType::fp32, DType::bf16, DType::i32, DType::u8}) {
    const Buffer out({4099}, dtype, 7);
    kernels::fill_one(Exec(), out);
    EXPECT_TRUE(same_bits(out.get(), Doubles(4099, 1)));
    kernels::fill_zero(Exec(), out);
    EXPECT_TRUE(same_bits(out.get(), Doubles(4099, 0)));
  }
}

}  // namespace
}  // namespace shard8::tests
