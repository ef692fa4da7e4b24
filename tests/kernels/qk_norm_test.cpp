// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/elementwise.hpp"
#include "tests/kernels/buffer.hpp"
#include "tests/support/compare.hpp"

namespace shard8::tests {
namespace {

using Doubles = std::vector<double>;

constexpr float kEps = 1e-6f;

struct Case {
  std::int64_t tokens, seq, queries, keys, values, half;
  std::int64_t dim() const { return 2 * half; }
  std::int64_t heads() const { return queries + keys; }
  std::int64_t columns() const { return (heads() + values) * dim(); }
  kernels::QkHeads shape() const { return {queries, keys}; }
};
// On a device a share of a warp holds a head: of one thread up to a whole warp, and with heads of 96 some hold nothing.
// Heads whose halves are no whole packs, or too wide for a warp, are taken one by one.
const std::vector<Case> kCases{{1, 1, 1, 1, 1, 1},   {14, 7, 3, 1, 1, 3},  {130, 65, 4, 2, 2, 16},
                               {33, 11, 8, 2, 0, 8}, {9, 3, 32, 8, 8, 64}, {40, 20, 5, 1, 1, 48},
                               {6, 3, 2, 1, 1, 128}, {5, 5, 2, 2, 2, 272}, {600, 100, 2, 1, 1, 32},
                               {18, 9, 17, 1, 1, 64}};

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

/// Random arguments of a case and their values.
struct Arguments {
  explicit Arguments(const Case& of, DType dtype)
      : c(of),
        qkv(Buffer::normal({c.tokens, c.columns()}, dtype, 1, 2)),
        dqkv(Buffer::normal({c.tokens, c.columns()}, dtype, 2)),
        unnormed({c.tokens, c.heads() * c.dim()}, dtype),
        table({2, c.seq, c.half}, DType::fp32),
        q_weight(Buffer::normal({c.dim()}, dtype, 3)),
        k_weight(Buffer::normal({c.dim()}, dtype, 4)),
        dq({c.dim()}, DType::fp32, 0.5),
        dk({c.dim()}, DType::fp32, -0.5),
        work(Buffer::bytes(kernels::norm_workspace_bytes(c.tokens, c.dim()))) {
    kernels::rope_table(Exec(), table, 10000);
  }
  void forward(const Exec& exec = {}) const {
    kernels::qk_norm_rope_forward(exec, qkv, unnormed, table, {q_weight, k_weight}, c.shape(), kEps);
  }
  void backward(const Exec& exec = {}) const {
    kernels::qk_norm_rope_backward(exec, dqkv, {dq, dk}, unnormed, table, {q_weight, k_weight}, c.shape(), kEps, work);
  }

  Case c;
  Buffer qkv, dqkv, unnormed, table, q_weight, k_weight, dq, dk, work;
};

/// Rotates the heads of `rows`, which has the columns of qkv, in double precision.
Doubles rotated(const Arguments& a, Doubles rows, double sign) {
  const auto angles = a.table.get();
  for (std::int64_t t = 0; t < a.c.tokens; ++t)
    for (std::int64_t h = 0; h < a.c.heads(); ++h)
      for (std::int64_t i = 0; i < a.c.half; ++i) {
        const double cosine = angles[at(t % a.c.seq * a.c.half + i)];
        const double sine = sign * angles[at((a.c.seq + t % a.c.seq) * a.c.half + i)];
        double &x1 = rows[at(t * a.c.columns() + h * a.c.dim() + i)], &x2 = *(&x1 + a.c.half);
        const double first = x1, second = x2;
        x1 = first * cosine - second * sine;
        x2 = second * cosine + first * sine;
      }
  return rows;
}

/// Calls f(x, weight, token, head) for each query and key head: the first index of the head in qkv, and its weight.
template <class F>
void for_heads(const Arguments& a, const F& f) {
  const auto q = a.q_weight.get(), k = a.k_weight.get();
  for (std::int64_t t = 0; t < a.c.tokens; ++t)
    for (std::int64_t h = 0; h < a.c.heads(); ++h)
      f(at(t * a.c.columns() + h * a.c.dim()), h < a.c.queries ? q : k, t, h);
}

double rstd_of(const Doubles& x, std::size_t first, std::int64_t dim) {
  double squares = 0;
  for (std::size_t i = 0; i < at(dim); ++i) squares += x[first + i] * x[first + i] / static_cast<double>(dim);
  return 1 / std::sqrt(squares + static_cast<double>(kEps));
}

double largest(const Doubles& values) {
  double most = 0;
  for (const double v : values) most = std::max(most, std::abs(v));
  return most;
}

class QkNorm : public ::testing::TestWithParam<DType> {
 protected:
  DType dtype_ = GetParam();
  /// Of a rotated head: an element may be the small difference of two rounded numbers as large as the largest.
  Tolerance tolerance(const Doubles& want, double roundings) const {
    return {rounding(dtype_), roundings * rounding(dtype_) * largest(want) + 1e-6};
  }
};

TEST_P(QkNorm, ForwardEqualsDoublePrecision) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(::testing::Message() << c.tokens << " tokens, " << c.heads() << " heads of " << c.dim());
    const Arguments a(c, dtype_);
    const Doubles before = a.qkv.get();
    Doubles want = before, kept;
    for_heads(a, [&](std::size_t first, const Doubles& weight, std::int64_t, std::int64_t) {
      const double r = rstd_of(before, first, c.dim());
      for (std::size_t i = 0; i < at(c.dim()); ++i) {
        want[first + i] = weight[i] * before[first + i] * r;
        kept.push_back(before[first + i]);
      }
    });
    want = rotated(a, std::move(want), 1);
    a.forward();
    const Doubles got = a.qkv.get();
    EXPECT_TRUE(all_close(got, want, tolerance(want, 2.5)));
    EXPECT_TRUE(same_bits(a.unnormed.get(), kept));
    const std::int64_t values = c.heads() * c.dim();
    for (std::int64_t t = 0; t < c.tokens; ++t)
      for (std::int64_t i = t * c.columns() + values; i < (t + 1) * c.columns(); ++i)
        ASSERT_EQ(got[at(i)], before[at(i)]) << "a value of token " << t;
  }
}

TEST_P(QkNorm, BackwardEqualsDoublePrecision) {
  for (const Case& c : kCases) {
    if (c.dim() == 2) continue;  // norms of two elements: dx is the small difference of large numbers
    SCOPED_TRACE(::testing::Message() << c.tokens << " tokens, " << c.heads() << " heads of " << c.dim());
    const Arguments a(c, dtype_);
    const Doubles x = a.qkv.get(), before = a.dqkv.get();
    const Doubles g = rotated(a, before, -1);
    Doubles want = g, dq(at(c.dim()), 0.5), dk(at(c.dim()), -0.5);
    for_heads(a, [&](std::size_t first, const Doubles& weight, std::int64_t, std::int64_t head) {
      const double r = rstd_of(x, first, c.dim());
      double mean = 0;
      for (std::size_t i = 0; i < at(c.dim()); ++i)
        mean += weight[i] * g[first + i] * x[first + i] * r / static_cast<double>(c.dim());
      for (std::size_t i = 0; i < at(c.dim()); ++i) {
        (head < c.queries ? dq : dk)[i] += g[first + i] * x[first + i] * r;
        want[first + i] = r * (weight[i] * g[first + i] - x[first + i] * r * mean);
      }
    });
    a.forward();
    a.backward();
    EXPECT_TRUE(all_close(a.dqkv.get(), want, tolerance(want, 1.5)));
    // g is rounded to the dtype before it is summed; in fp32 the sums round.
    const double of_one = dtype_ == DType::bf16 ? 0x1p-8 : 1e-6;
    EXPECT_TRUE(all_close(a.dq.get(), dq, {1e-6, 6 * of_one * std::sqrt(static_cast<double>(c.tokens * c.queries))}));
    EXPECT_TRUE(all_close(a.dk.get(), dk, {1e-6, 6 * of_one * std::sqrt(static_cast<double>(c.tokens * c.keys))}));
  }
}

/// A function, so that compilers do not see that a test ends with its first line.
bool one_order_of_sums() { return !tensor::kDevice; }

/// Hosts compute what the kernels of the norm and of the rotation compute one after the other: in fp32 up to the
/// contraction of products and sums, which may move the one rounding to bf16. (Devices add the squares of a head in
/// another order.)
TEST_P(QkNorm, IsTheNormAndThenTheRotation) {
  if (!one_order_of_sums()) GTEST_SKIP() << "sums of a head have another order on devices";
  for (const Case& c : kCases) {
    SCOPED_TRACE(::testing::Message() << c.tokens << " tokens, " << c.heads() << " heads of " << c.dim());
    const Arguments a(c, dtype_);
    const Doubles before = a.qkv.get();
    Doubles want = before;
    const Buffer y({1, c.dim()}, dtype_), rstd({1}, DType::fp32);
    for_heads(a, [&](std::size_t first, const Doubles&, std::int64_t, std::int64_t head) {
      const auto begin = want.begin() + static_cast<std::ptrdiff_t>(first);
      const Buffer in({1, c.dim()}, dtype_, Doubles(begin, begin + c.dim()));
      kernels::rmsnorm_forward(Exec(), y, rstd, in, head < c.queries ? a.q_weight : a.k_weight, kEps);
      std::ranges::copy(y.get(), begin);
    });
    const Buffer rows(a.qkv.shape(), dtype_, want);
    kernels::rope_forward(Exec(), rows, a.table, c.heads());
    a.forward();
    const Doubles both = rows.get();
    EXPECT_TRUE(all_close(a.qkv.get(), both, {rounding(dtype_), 4 * rounding(DType::fp32) * largest(both)}));
  }
}

TEST_P(QkNorm, SameBitsForAnyNumberOfThreads) {
  const Case c{70, 35, 4, 2, 2, 16};
  std::vector<Doubles> first;
  for (const Exec& exec : exec_widths()) {
    const Arguments a(c, dtype_);
    a.forward(exec);
    exec.fence("shard8::tests::qk_norm");
    a.backward(exec);
    exec.fence("shard8::tests::qk_norm");
    const std::vector<Doubles> results{a.qkv.get(), a.dqkv.get(), a.dq.get(), a.dk.get()};
    if (first.empty()) first = results;
    for (std::size_t i = 0; i < results.size(); ++i) EXPECT_TRUE(same_bits(results[i], first[i])) << "result " << i;
  }
}

TEST_P(QkNorm, WrongCountsAreErrors) {
  const Arguments a({4, 2, 2, 1, 1, 4}, dtype_);
  const Buffer narrow({4}, dtype_), no_work = Buffer::bytes(16);
  const auto forward = [&](const Tensor& unnormed, const Tensor& q, const Tensor& k, const kernels::QkHeads& heads) {
    kernels::qk_norm_rope_forward(Exec(), a.qkv, unnormed, a.table, {q, k}, heads, kEps);
  };
  const kernels::QkHeads heads = a.c.shape();
  EXPECT_THROW(forward(narrow, a.q_weight, a.k_weight, heads), base::Error);
  EXPECT_THROW(forward(a.unnormed, narrow, a.k_weight, heads), base::Error);
  EXPECT_THROW(forward(a.unnormed, a.q_weight, narrow, heads), base::Error);
  EXPECT_THROW(forward(a.unnormed, a.q_weight, a.k_weight, {4, 1}), base::Error);
  EXPECT_NO_THROW(forward(a.unnormed, a.q_weight, a.k_weight, heads));
  const auto backward = [&](const Tensor& dq, const Tensor& dk, const Tensor& work) {
    kernels::qk_norm_rope_backward(Exec(), a.dqkv, {dq, dk}, a.unnormed, a.table, {a.q_weight, a.k_weight}, heads, kEps,
                                   work);
  };
  EXPECT_THROW(backward(narrow, a.dk, a.work), base::Error);
  EXPECT_THROW(backward(a.dq, narrow, a.work), base::Error);
  EXPECT_THROW(backward(a.dq, a.dk, no_work), base::Error);
  EXPECT_NO_THROW(backward(a.dq, a.dk, a.work));
}

INSTANTIATE_TEST_SUITE_P(, QkNorm, ::testing::Values(DType::fp32, DType::bf16));

}  // namespace
}  // namespace shard8::tests
