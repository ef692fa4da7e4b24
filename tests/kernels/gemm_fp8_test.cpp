// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <limits>

#include "kernels/gemm.hpp"
#include "kernels/host/decoded_tile.hpp"
#include "tests/kernels/gemm_fp8.hpp"
#include "tests/support/compare.hpp"

namespace shard8::tests {
namespace {

using Doubles = std::vector<double>;

/// c (m, n) = Σ_p a(i, p)·b(p, j), a stored (k, m) if a_t, b stored (n, k) if b_t.
Doubles product(const Doubles& a, bool a_t, const Doubles& b, bool b_t, std::int64_t m, std::int64_t n,
                std::int64_t k) {
  Doubles c(static_cast<std::size_t>(m * n));
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t p = 0; p < k; ++p) {
      const double v = a[static_cast<std::size_t>(a_t ? p * m + i : i * k + p)];
      for (std::int64_t j = 0; j < n; ++j) {
        c[static_cast<std::size_t>(i * n + j)] += v * b[static_cast<std::size_t>(b_t ? j * k + p : p * n + j)];
      }
    }
  }
  return c;
}

struct Sizes {
  std::int64_t t, k, n;
};
/// Odd sizes, and sizes that are cut into several tiles in every dimension.
constexpr Sizes kSizes[] = {{1, 1, 1}, {3, 5, 7}, {33, 17, 65}, {1025, 33, 40}, {3, 1030, 1100}};

std::int64_t whole(std::int64_t n, std::int64_t block) { return (n + block - 1) / block * block; }

/// The tolerance for sums over n products of numbers of size 1. As for other operands: n·2^-25 or so from the rounding
/// of partial sums, which no element exceeds four times. It is four times more here for the spread of the scales. The
/// roundings of alpha and of the decoded elements are as large as those of the sums.
Tolerance tolerance(std::int64_t n, DType out) { return {rounding(out) + 6e-7, 5e-7 * static_cast<double>(n) + 1e-6}; }

constexpr std::pair<DType, DType> kFormats[] = {
    {DType::e4m3, DType::e4m3}, {DType::e4m3, DType::e5m2}, {DType::e5m2, DType::e4m3}};
/// Large products are tried with one pair of formats: how they are cut into tiles does not depend on the formats.
bool tried(const Sizes& s, DType a, DType b) {
  return s.t * s.k * s.n < 1000000 || (a == DType::e4m3 && b == DType::e5m2);
}
constexpr DType kOutputs[] = {DType::fp32, DType::bf16};

Buffer workspace(const Sizes& s) { return Buffer::bytes(kernels::gemm_workspace_bytes(DType::e4m3, s.t, s.k, s.n)); }

class GemmFp8 : public ::testing::TestWithParam<Family> {
 protected:
  Exec exec_;
  Family f_ = GetParam();
};

TEST_P(GemmFp8, FpropEqualsDoublePrecision) {
  for (const auto& [in_x, in_w] : kFormats) {
    for (Sizes s : kSizes) {
      if (!tried(s, in_x, in_w)) continue;
      s.k = whole(s.k, f_.width);
      if (f_.weight_row == Scaling::tile_128) s.n = whole(s.n, f_.width);
      SCOPED_TRACE(::testing::Message() << name_of(in_x) << " " << s.t << " " << s.k << " " << s.n);
      const Quantized x({s.t, s.k}, in_x, f_.row, 1), w({s.n, s.k}, in_w, f_.weight_row, 2);
      const auto work = workspace(s);
      const auto want = product(x.values(), false, w.values(), true, s.t, s.n, s.k);
      Doubles exact;
      for (const DType out : kOutputs) {
        const Buffer y({s.t, s.n}, out, 99), bias = Buffer::normal({s.n}, out, 3);
        kernels::gemm_fprop(exec_, y, x, w, Tensor{}, work);
        EXPECT_TRUE(all_close(y.get(), want, tolerance(s.k, out))) << name_of(out);
        if (out == DType::fp32) exact = y.get();
        EXPECT_TRUE(same_bits(y.get(), Buffer({s.t, s.n}, out, exact).get())) << "rounded once";
        kernels::gemm_fprop(exec_, y, x, w, bias, work);
        auto shifted = want;
        const auto added = bias.get();
        for (std::size_t i = 0; i < shifted.size(); ++i) shifted[i] += added[i % added.size()];
        EXPECT_TRUE(all_close(y.get(), shifted, tolerance(s.k, out))) << name_of(out) << " with bias";
      }
    }
  }
}

TEST_P(GemmFp8, DgradEqualsDoublePrecision) {
  for (const auto& [in_dy, in_w] : kFormats) {
    for (Sizes s : kSizes) {
      if (!tried(s, in_dy, in_w)) continue;
      s.n = whole(s.n, f_.width);
      if (f_.weight_column == Scaling::tile_128) s.k = whole(s.k, f_.width);
      SCOPED_TRACE(::testing::Message() << name_of(in_dy) << " " << s.t << " " << s.k << " " << s.n);
      const Quantized dy({s.t, s.n}, in_dy, f_.row, 1), w({s.n, s.k}, in_w, f_.weight_column, 2);
      const auto work = workspace(s);
      auto want = product(dy.values(), false, w.values(), false, s.t, s.k, s.n);
      for (const DType out : kOutputs) {
        const Buffer dx({s.t, s.k}, out, 99);
        kernels::gemm_dgrad(exec_, dx, dy, w, false, work);
        EXPECT_TRUE(all_close(dx.get(), want, tolerance(s.n, out))) << name_of(out);
      }
      const auto begin = Buffer::normal({s.t, s.k}, DType::fp32, 4);
      const auto before = begin.get();
      for (std::size_t i = 0; i < want.size(); ++i) want[i] += before[i];
      kernels::gemm_dgrad(exec_, begin, dy, w, true, work);
      EXPECT_TRUE(all_close(begin.get(), want, tolerance(s.n, DType::fp32))) << "accumulated";
    }
  }
}

TEST_P(GemmFp8, WgradEqualsDoublePrecision) {
  for (const auto& [in_dy, in_x] : kFormats) {
    for (Sizes s : kSizes) {
      if (!tried(s, in_dy, in_x)) continue;
      s.t = whole(s.t, f_.width);
      SCOPED_TRACE(::testing::Message() << name_of(in_dy) << " " << s.t << " " << s.k << " " << s.n);
      const Quantized dy({s.t, s.n}, in_dy, f_.column, 1), x({s.t, s.k}, in_x, f_.column, 2);
      const auto work = workspace(s);
      const Buffer dw({s.n, s.k}, DType::fp32, 99);
      auto want = product(dy.values(), true, x.values(), false, s.n, s.k, s.t);
      kernels::gemm_wgrad(exec_, dw, dy, x, false, work);
      EXPECT_TRUE(all_close(dw.get(), want, tolerance(s.t, DType::fp32)));
      for (auto& v : want) v *= 2;
      kernels::gemm_wgrad(exec_, dw, dy, x, true, work);
      EXPECT_TRUE(all_close(dw.get(), want, tolerance(2 * s.t, DType::fp32))) << "accumulated";
    }
  }
}

TEST_P(GemmFp8, NanReachesTheResult) {
  constexpr std::int64_t kT = 32, kK = 128, kN = 128, kAt = 5 * kK + 77;
  for (const DType in : {DType::e4m3, DType::e5m2}) {
    Quantized x({kT, kK}, in, f_.row, 1);
    const Quantized w({kN, kK}, DType::e4m3, f_.weight_row, 2);
    auto elements = x.data().get();
    elements[kAt] = std::numeric_limits<double>::quiet_NaN();
    x.data().set(elements);
    for (const DType out : kOutputs) {
      const Buffer y({kT, kN}, out);
      kernels::gemm_fprop(exec_, y, x, w, Tensor{}, workspace({kT, kK, kN}));
      const auto got = y.get();
      for (std::size_t i = 0; i < got.size(); ++i) ASSERT_EQ(std::isnan(got[i]), i / kN == 5) << i;
    }
  }
}

TEST_P(GemmFp8, NoTokensGiveNoGradient) {
  const Quantized dy({0, 4}, DType::e5m2, f_.column, 1), x({0, 3}, DType::e4m3, f_.column, 2);
  const Buffer dw({4, 3}, DType::fp32, 99);
  kernels::gemm_wgrad(exec_, dw, dy, x, false, workspace({0, 3, 4}));
  EXPECT_EQ(dw.get(), Doubles(12, 0.0));
}

/// Tiles that begin and end anywhere inside blocks decode to element · scale in fp32, bit for bit.
TEST_P(GemmFp8, TilesBeginAnywhere) {
  const std::int64_t rows = whole(150, f_.width), cols = whole(280, f_.width);
  for (const Scaling scaling : {f_.row, f_.column, f_.weight_row, f_.weight_column}) {
    for (const DType in : {DType::e4m3, DType::e5m2}) {
      const Quantized matrix({rows, cols}, in, scaling, 1);
      const auto elements = matrix.operand();
      // A tensor's scale multiplies the sum, not the elements.
      const auto want = scaling == Scaling::tensor ? matrix.data().get() : matrix.values();
      for (const bool transposed : {false, true}) {
        for (const auto& [r, nr, c, nc] :
             {std::array{0, 150, 0, 280}, {1, 1, 3, 1}, {127, 3, 100, 157}, {31, 70, 33, 95}}) {
          std::vector<float> memory(static_cast<std::size_t>(nr * nc));
          kernels::DecodedTile tile({.name = "x", .matrix = elements, .transposed = transposed, .scalings = {}}, 1.0f,
                                    memory.data());
          const auto got = transposed ? tile.get(exec_, c, nc, r, nr) : tile.get(exec_, r, nr, c, nc);
          EXPECT_EQ(got.stride, nc);
          EXPECT_EQ(got.transposed, transposed);
          std::vector<float> part;
          for (std::int64_t i = r; i < r + nr; ++i) {
            for (std::int64_t j = c; j < c + nc; ++j) {
              part.push_back(static_cast<float>(want[static_cast<std::size_t>(i * cols + j)]));
            }
          }
          EXPECT_TRUE(same_bits(memory, part)) << name_of(scaling) << " " << name_of(in) << " from " << r << ", " << c;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, GemmFp8, ::testing::ValuesIn(kFamilies),
                         [](const auto& instance) { return std::string(instance.param.name); });

/// With scales of powers of two, decoding is exact, even in bf16: emulation changes no bit.
TEST(GemmFp8Scales, PowersOfTwoEqualTheBf16Product) {
  constexpr Sizes s{48, 160, 70};
  const Quantized x({s.t, s.k}, DType::e4m3, Scaling::row_32, 1), w({s.n, s.k}, DType::e4m3, Scaling::row_32, 2);
  const Buffer x16({s.t, s.k}, DType::bf16, x.values()), w16({s.n, s.k}, DType::bf16, w.values());
  const Buffer got({s.t, s.n}, DType::fp32), want({s.t, s.n}, DType::fp32);
  kernels::gemm_fprop(Exec(), got, x, w, Tensor{}, workspace(s));
  kernels::gemm_fprop(Exec(), want, x16, w16, Tensor{}, workspace(s));
  EXPECT_TRUE(same_bits(got.get(), want.get()));
}

/// The product of the two scales is subnormal, infinite or zero; the result is a normal number, or NaN.
TEST(GemmFp8Scales, WhoseProductIsNoNormalNumber) {
  constexpr Sizes s{16, 256, 16};
  struct Case {
    double x, w;
  };
  for (const auto [of_x, of_w] : {Case{1e-25, 1e-15}, {1e-15, 1e-25}, {1e-37, 1e-4}}) {
    const Quantized x({s.t, s.k}, DType::e5m2, Scaling::tensor, 1, of_x);
    const Quantized w({s.n, s.k}, DType::e4m3, Scaling::tensor, 2, of_w);
    const Buffer y({s.t, s.n}, DType::fp32);
    kernels::gemm_fprop(Exec(), y, x, w, Tensor{}, workspace(s));
    auto got = y.get(), want = product(x.values(), false, w.values(), true, s.t, s.n, s.k);
    for (Doubles* values : {&got, &want}) {
      for (double& v : *values) v /= of_x * of_w;
    }
    EXPECT_TRUE(all_close(got, want, {1e-6, 5e-7 * s.k})) << of_x << " and " << of_w;
  }
  Quantized x({s.t, s.k}, DType::e5m2, Scaling::tensor, 1, 1e-30);
  const Quantized w({s.n, s.k}, DType::e4m3, Scaling::tensor, 2, 1e-30);
  x.data().set(Doubles(s.t * s.k, std::numeric_limits<double>::quiet_NaN()));
  const Buffer y({s.t, s.n}, DType::fp32);
  kernels::gemm_fprop(Exec(), y, x, w, Tensor{}, workspace(s));
  for (const double v : y.get()) EXPECT_TRUE(std::isnan(v));
}

TEST(GemmFp8Scales, NanOfABlockStaysInIt) {
  constexpr Sizes s{4, 64, 8};
  Quantized x({s.t, s.k}, DType::e4m3, Scaling::row_32, 1);
  const Quantized w({s.n, s.k}, DType::e4m3, Scaling::row_32, 2);
  auto scales = x.scale_inv().get();
  scales[5] = std::numeric_limits<double>::quiet_NaN();  // of row 2
  x.scale_inv().set(scales);
  const Buffer y({s.t, s.n}, DType::bf16);
  kernels::gemm_fprop(Exec(), y, x, w, Tensor{}, workspace(s));
  const auto got = y.get();
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(std::isnan(got[i]), i / s.n == 2) << i;
}

TEST(GemmFp8Scales, WorkspaceIsThatOfBf16) {
  for (const DType in : {DType::e4m3, DType::e5m2}) {
    EXPECT_EQ(kernels::gemm_workspace_bytes(in, 5000, 300, 2000),
              kernels::gemm_workspace_bytes(DType::bf16, 5000, 300, 2000));
  }
}

}  // namespace
}  // namespace shard8::tests
