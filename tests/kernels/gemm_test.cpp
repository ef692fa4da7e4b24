// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm.hpp"

#include <gtest/gtest.h>

#include "tests/kernels/buffer.hpp"
#include "tests/support/compare.hpp"

namespace shard8::tests {
namespace {

using Doubles = std::vector<double>;

/// c (m, n) = Σ_p a(i, p)·b(p, j) with a(i, p) = a[i·ai + p·ap], b(p, j) = b[p·bp + j·bj].
struct Strides {
  std::int64_t ai, ap, bp, bj;
};
Doubles product(const Doubles& a, const Doubles& b, std::int64_t m, std::int64_t n, std::int64_t k, Strides s) {
  Doubles c(static_cast<std::size_t>(m * n));
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t p = 0; p < k; ++p) {
      const double v = a[static_cast<std::size_t>(i * s.ai + p * s.ap)];
      for (std::int64_t j = 0; j < n; ++j) {
        c[static_cast<std::size_t>(i * n + j)] += v * b[static_cast<std::size_t>(p * s.bp + j * s.bj)];
      }
    }
  }
  return c;
}

struct Sizes {
  std::int64_t t, k, n;
};
/// The last two sizes cut bf16 products into tiles in every dimension, by one element and by many.
const std::vector<Sizes> kSizes{{1, 1, 1}, {3, 5, 7}, {33, 17, 65}, {64, 128, 96}, {1025, 33, 40}, {20, 1030, 1100}};

/// The tolerance for sums over n normal products in fp32. Partial sums grow like sqrt(i), and their n roundings add up
/// like random steps to n·2^-25 or so; no element exceeds four times that. It is relative to the sum where the sum is
/// larger. The rounding of the output is added.
Tolerance tolerance(std::int64_t n, DType out) {
  return {rounding(out) + 4e-7, 1.2e-7 * static_cast<double>(n) + 1e-6};
}

class Gemm : public ::testing::TestWithParam<std::pair<DType, DType>> {
 protected:
  Exec exec_;
  DType in_ = GetParam().first, out_ = GetParam().second;
};

TEST_P(Gemm, FpropEqualsDoublePrecision) {
  for (const auto [t, k, n] : kSizes) {
    SCOPED_TRACE(::testing::Message() << t << " " << k << " " << n);
    const auto x = Buffer::normal({t, k}, in_, 1), w = Buffer::normal({n, k}, in_, 2);
    const auto bias = Buffer::normal({n}, in_, 3);
    const auto work = Buffer::bytes(kernels::gemm_workspace_bytes(in_, t, k, n));
    const Buffer y({t, n}, out_, 99);
    auto want = product(x.get(), w.get(), t, n, k, {k, 1, 1, k});
    kernels::gemm_fprop(exec_, y, x, w, Tensor{}, work);
    EXPECT_TRUE(all_close(y.get(), want, tolerance(k, out_)));
    const auto added = bias.get();
    for (std::size_t i = 0; i < want.size(); ++i) want[i] += added[i % static_cast<std::size_t>(n)];
    kernels::gemm_fprop(exec_, y, x, w, bias, work);
    EXPECT_TRUE(all_close(y.get(), want, tolerance(k, out_))) << "with bias";
  }
}

TEST_P(Gemm, DgradEqualsDoublePrecision) {
  for (const auto [t, k, n] : kSizes) {
    SCOPED_TRACE(::testing::Message() << t << " " << k << " " << n);
    const auto dy = Buffer::normal({t, n}, in_, 1), w = Buffer::normal({n, k}, in_, 2);
    const auto work = Buffer::bytes(kernels::gemm_workspace_bytes(in_, t, k, n));
    const Buffer dx({t, k}, out_, 99);
    auto want = product(dy.get(), w.get(), t, k, n, {n, 1, k, 1});
    kernels::gemm_dgrad(exec_, dx, dy, w, false, work);
    EXPECT_TRUE(all_close(dx.get(), want, tolerance(n, out_)));
    if (out_ != DType::fp32) continue;
    for (auto& v : want) v *= 2;
    kernels::gemm_dgrad(exec_, dx, dy, w, true, work);
    EXPECT_TRUE(all_close(dx.get(), want, tolerance(2 * n, out_))) << "accumulated";
  }
}

TEST_P(Gemm, WgradEqualsDoublePrecision) {
  for (const auto [t, k, n] : kSizes) {
    SCOPED_TRACE(::testing::Message() << t << " " << k << " " << n);
    const auto dy = Buffer::normal({t, n}, in_, 1), x = Buffer::normal({t, k}, in_, 2);
    const auto work = Buffer::bytes(kernels::gemm_workspace_bytes(in_, t, k, n));
    const Buffer dw({n, k}, DType::fp32, 99);
    auto want = product(dy.get(), x.get(), n, k, t, {1, n, k, 1});
    kernels::gemm_wgrad(exec_, dw, dy, x, false, work);
    EXPECT_TRUE(all_close(dw.get(), want, tolerance(t, DType::fp32)));
    for (auto& v : want) v *= 2;
    kernels::gemm_wgrad(exec_, dw, dy, x, true, work);
    EXPECT_TRUE(all_close(dw.get(), want, tolerance(2 * t, DType::fp32))) << "accumulated";
  }
}

TEST_P(Gemm, RepeatsBitForBit) {
  const auto x = Buffer::normal({300, 700}, in_, 1), w = Buffer::normal({200, 700}, in_, 2);
  const auto work = Buffer::bytes(kernels::gemm_workspace_bytes(in_, 300, 700, 200));
  const Buffer first({300, 200}, out_), second({300, 200}, out_);
  kernels::gemm_fprop(exec_, first, x, w, Tensor{}, work);
  kernels::gemm_fprop(exec_, second, x, w, Tensor{}, work);
  EXPECT_TRUE(same_bits(first.get(), second.get()));
}

INSTANTIATE_TEST_SUITE_P(, Gemm,
                         ::testing::Values(std::pair{DType::fp32, DType::fp32}, std::pair{DType::bf16, DType::fp32},
                                           std::pair{DType::bf16, DType::bf16}));

/// One rounding: the bf16 result is the rounded fp32 result.
TEST(GemmRounding, RoundsOnce) {
  const auto x = Buffer::normal({40, 1500}, DType::bf16, 1), w = Buffer::normal({30, 1500}, DType::bf16, 2);
  const auto work = Buffer::bytes(kernels::gemm_workspace_bytes(DType::bf16, 40, 1500, 30));
  const Buffer exact({40, 30}, DType::fp32), rounded({40, 30}, DType::bf16);
  kernels::gemm_fprop(Exec(), exact, x, w, Tensor{}, work);
  kernels::gemm_fprop(Exec(), rounded, x, w, Tensor{}, work);
  const Buffer want({40, 30}, DType::bf16, exact.get());
  EXPECT_TRUE(same_bits(rounded.get(), want.get()));
}

TEST(GemmErrors, SaysWhatDoesNotFit) {
  const Buffer x({4, 3}, DType::fp32), w({5, 3}, DType::fp32), y({4, 6}, DType::fp32), half({4, 5}, DType::bf16);
  EXPECT_THROW(kernels::gemm_fprop(Exec(), y, x, w, Tensor{}, Tensor{}), base::Error);
  EXPECT_THROW(kernels::gemm_fprop(Exec(), half, x, w, Tensor{}, Tensor{}), base::Error);
  const Buffer xh({4, 3}, DType::bf16), wh({5, 3}, DType::bf16), few({1}, DType::u8);
  EXPECT_THROW(kernels::gemm_fprop(Exec(), half, xh, wh, Tensor{}, few), base::Error);
}

}  // namespace
}  // namespace shard8::tests
