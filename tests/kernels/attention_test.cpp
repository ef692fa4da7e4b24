// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/kernels/attention_reference.hpp"
#include "tests/kernels/buffer.hpp"
#include "tests/support/compare.hpp"

namespace shard8::tests {
namespace {

using kernels::AttentionShape;

/// Blocks are 64 by 64. Sizes are below, at and around one, two and more blocks; head dimensions are no multiples of a
/// vector; queries are grouped; numbers of heads are odd.
const std::vector<AttentionShape> kShapes{
    {1, 1, 1, 1, 1},   {2, 5, 3, 3, 7},    {1, 64, 2, 1, 16},  {3, 65, 6, 2, 24},
    {1, 127, 5, 5, 8}, {2, 200, 4, 2, 64}, {1, 257, 3, 1, 80}, {1, 130, 2, 2, 128},
};
std::string describe(const AttentionShape& s) {
  return fmt::format("batch {} seq {} heads {} kv_heads {} head_dim {}", s.batch, s.seq, s.heads, s.kv_heads,
                     s.head_dim);
}

Buffer workspace(const AttentionShape& s, const Exec& exec) {
  return Buffer::bytes(kernels::attention_workspace_bytes(s, exec.concurrency()));
}

struct Run {
  Buffer o, lse, dqkv;
};
Run run(const Exec& exec, const AttentionShape& s, const Buffer& qkv, const Buffer& dout) {
  Run r{Buffer(dout.shape(), qkv.dtype()), Buffer({s.batch, s.heads, s.seq}, DType::fp32),
        Buffer(qkv.shape(), qkv.dtype())};
  const auto work = workspace(s, exec);
  kernels::attention_forward(exec, r.o, r.lse, qkv, s, work);
  kernels::attention_backward(exec, r.dqkv, dout, r.o, qkv, r.lse, s, work);
  return r;
}

class Attention : public ::testing::TestWithParam<DType> {};

TEST_P(Attention, EqualsDoublePrecision) {
  const auto dtype = GetParam();
  for (const auto& s : kShapes) {
    SCOPED_TRACE(describe(s));
    const auto t = s.batch * s.seq;
    const auto qkv = Buffer::normal({t, (s.heads + 2 * s.kv_heads) * s.head_dim}, dtype, 1);
    const auto dout = Buffer::normal({t, s.heads * s.head_dim}, dtype, 2);
    const auto got = run(Exec(), s, qkv, dout);
    const auto want = attention_reference(s, qkv.get(), dout.get());
    EXPECT_TRUE(all_close(got.lse.get(), want.lse, {1e-6, 2e-6}));
    EXPECT_TRUE(all_close(got.o.get(), want.o, {rounding(dtype), 3e-6}));
    // In bf16 the rounding of o enters the gradients through Σ dout·o.
    const double scale = std::sqrt(static_cast<double>(s.head_dim));
    const double absolute = dtype == DType::bf16 ? 0.01 * scale : 1e-5 * scale;
    EXPECT_TRUE(all_close(got.dqkv.get(), want.dqkv, {rounding(dtype), absolute}));
    EXPECT_LT(relative_distance(got.dqkv.get(), want.dqkv), dtype == DType::bf16 ? 6e-3 : 2e-6);
  }
}

TEST_P(Attention, LargeScoresDoNotOverflow) {
  const AttentionShape s{1, 70, 1, 1, 16};
  const auto qkv = Buffer::normal({70, 48}, GetParam(), 1, 30);
  const auto dout = Buffer::normal({70, 16}, GetParam(), 2);
  const auto got = run(Exec(), s, qkv, dout);
  const auto want = attention_reference(s, qkv.get(), dout.get());
  EXPECT_TRUE(all_close(got.o.get(), want.o, {rounding(GetParam()), 30 * 2e-3}));
  for (const double v : got.dqkv.get()) EXPECT_TRUE(std::isfinite(v));
}

/// A later key or value changes no earlier output.
TEST_P(Attention, IsCausal) {
  const AttentionShape s{1, 100, 2, 1, 8};
  auto qkv = Buffer::normal({100, 32}, GetParam(), 1);
  const auto dout = Buffer::normal({100, 16}, GetParam(), 2);
  auto before = run(Exec(), s, qkv, dout).o.get();
  auto values = qkv.get();
  for (std::size_t i = 70 * 32; i < values.size(); ++i) values[i] = 7;
  qkv.set(values);
  auto after = run(Exec(), s, qkv, dout).o.get();
  EXPECT_NE(before, after);
  before.resize(70 * 16);
  after.resize(70 * 16);
  EXPECT_TRUE(same_bits(after, before));
}

/// One kv head is one task on one thread and is cut into blocks on several: the bits must be the same.
TEST_P(Attention, BitsDoNotDependOnThreads) {
  for (const AttentionShape& s : {AttentionShape{1, 300, 3, 1, 40}, AttentionShape{2, 150, 4, 4, 64}}) {
    SCOPED_TRACE(describe(s));
    const auto t = s.batch * s.seq;
    const auto qkv = Buffer::normal({t, (s.heads + 2 * s.kv_heads) * s.head_dim}, GetParam(), 1);
    const auto dout = Buffer::normal({t, s.heads * s.head_dim}, GetParam(), 2);
    const auto want = run(Exec(), s, qkv, dout);
    for (const auto& exec : exec_widths()) {
      for (int repeat = 0; repeat < 2; ++repeat) {
        const auto got = run(exec, s, qkv, dout);
        EXPECT_TRUE(same_bits(got.o.get(), want.o.get())) << exec.concurrency() << " threads";
        EXPECT_TRUE(same_bits(got.lse.get(), want.lse.get())) << exec.concurrency() << " threads";
        EXPECT_TRUE(same_bits(got.dqkv.get(), want.dqkv.get())) << exec.concurrency() << " threads";
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, Attention, ::testing::Values(DType::fp32, DType::bf16));

/// The reference's gradients against its own forward, by central differences in double.
TEST(AttentionOracle, GradientsAreDerivatives) {
  const AttentionShape s{2, 4, 4, 2, 3};
  auto qkv = Buffer::normal({8, 24}, DType::fp32, 1).get();
  const auto dout = Buffer::normal({8, 12}, DType::fp32, 2).get();
  const auto want = attention_reference(s, qkv, dout).dqkv;
  const auto objective = [&] {
    const auto o = attention_reference(s, qkv, dout).o;
    double sum = 0;
    for (std::size_t i = 0; i < o.size(); ++i) sum += o[i] * dout[i];
    return sum;
  };
  for (std::size_t i = 0; i < qkv.size(); ++i) {
    const double kept = qkv[i], step = 1e-5;
    qkv[i] = kept + step;
    const double up = objective();
    qkv[i] = kept - step;
    const double down = objective();
    qkv[i] = kept;
    EXPECT_NEAR((up - down) / (2 * step), want[i], 1e-7) << i;
  }
}

TEST(AttentionWorkspace, IsBlocksAndNotScores) {
  const AttentionShape s{8, 4096, 32, 8, 128};
  const auto scores = static_cast<std::size_t>(s.batch * s.heads * s.seq * s.seq) * sizeof(float);
  EXPECT_LT(kernels::attention_workspace_bytes(s, 16), scores / 100);
  const Buffer small({8}, DType::u8), qkv({3, 3}, DType::fp32), o({3, 1}, DType::fp32), lse({3}, DType::fp32);
  EXPECT_THROW(kernels::attention_forward(Exec(), o, lse, qkv, {1, 3, 1, 1, 1}, small), base::Error);
}

}  // namespace
}  // namespace shard8::tests
