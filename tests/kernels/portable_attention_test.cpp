// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/attention.hpp"
#include "kernels/kokkos/portable.hpp"
#include "tests/kernels/buffer.hpp"
#include "tests/support/compare.hpp"

namespace shard8::tests {
namespace {

using kernels::AttentionShape;

/// Blocks are 16 by 32, and 8 by 32 above a head dimension of 128. Sizes are below, at and around one block and more;
/// head dimensions are no multiples of a vector; queries are grouped.
const std::vector<AttentionShape> kShapes{
    {1, 1, 1, 1, 1},    {2, 5, 3, 3, 7},    {1, 16, 2, 1, 16},  {1, 32, 2, 2, 64},  {3, 33, 6, 2, 24},
    {2, 100, 4, 1, 80}, {1, 65, 2, 2, 128}, {1, 40, 2, 1, 129}, {1, 41, 1, 1, 256},
};

struct Inputs {
  Buffer qkv, dout;

  Inputs(const AttentionShape& s, DType dtype, double scale = 1)
      : qkv(Buffer::normal({s.tokens(), s.qkv_columns()}, dtype, 1, scale)),
        dout(Buffer::normal({s.tokens(), s.heads * s.head_dim}, dtype, 2)) {}
};

struct Results {
  Buffer o, lse, dqkv;

  explicit Results(const AttentionShape& s, const Inputs& x)
      : o(x.dout.shape(), x.dout.dtype(), NAN),
        lse({s.batch, s.heads, s.seq}, DType::fp32, NAN),
        dqkv(x.qkv.shape(), x.qkv.dtype(), NAN) {}
};

Results on_host(const AttentionShape& s, const Inputs& x) {
  Results r(s, x);
  const Exec exec;
  const auto work = Buffer::bytes(kernels::attention_workspace_bytes(s, exec.concurrency()));
  kernels::attention_forward(exec, r.o, r.lse, x.qkv, s, work);
  kernels::attention_backward(exec, r.dqkv, x.dout, r.o, x.qkv, r.lse, s, work);
  return r;
}
Results portable(const Exec& exec, const AttentionShape& s, const Inputs& x) {
  Results r(s, x);
  kernels::portable_attention_forward(exec, r.o, r.lse, x.qkv, s);
  kernels::portable_attention_backward(exec, r.dqkv, x.dout, r.o, x.qkv, r.lse, s);
  return r;
}

class PortableAttention : public ::testing::TestWithParam<DType> {};

/// Both round to the dtype once, from fp32 sums in different orders. In bf16 a different rounding of o may change the
/// gradients through Σ dout·o.
TEST_P(PortableAttention, EqualsTheHosts) {
  const auto dtype = GetParam();
  for (const auto& s : kShapes) {
    SCOPED_TRACE(fmt::format("batch {} seq {} heads {} kv_heads {} head_dim {}", s.batch, s.seq, s.heads, s.kv_heads,
                             s.head_dim));
    const Inputs x(s, dtype);
    const auto got = portable(Exec(), s, x), want = on_host(s, x);
    EXPECT_TRUE(all_close(got.lse.get(), want.lse.get(), {2e-6, 4e-6}));
    EXPECT_TRUE(all_close(got.o.get(), want.o.get(), {2 * rounding(dtype), 6e-6}));
    const double scale = std::sqrt(static_cast<double>(s.head_dim));
    const double absolute = dtype == DType::bf16 ? 0.01 * scale : 2e-5 * scale;
    EXPECT_TRUE(all_close(got.dqkv.get(), want.dqkv.get(), {2 * rounding(dtype), absolute}));
    EXPECT_LT(relative_distance(got.dqkv.get(), want.dqkv.get()), dtype == DType::bf16 ? 6e-3 : 4e-6);
  }
}

TEST_P(PortableAttention, LargeScoresDoNotOverflow) {
  const AttentionShape s{1, 70, 1, 1, 16};
  const Inputs x(s, GetParam(), 30);
  const auto got = portable(Exec(), s, x), want = on_host(s, x);
  EXPECT_TRUE(all_close(got.o.get(), want.o.get(), {2 * rounding(GetParam()), 30 * 2e-3}));
  for (const double v : got.dqkv.get()) EXPECT_TRUE(std::isfinite(v));
}

TEST_P(PortableAttention, BitsDoNotDependOnThreads) {
  const AttentionShape s{2, 75, 4, 2, 40};
  const Inputs x(s, GetParam());
  const auto want = portable(Exec(), s, x);
  for (const auto& exec : exec_widths()) {
    const auto got = portable(exec, s, x);
    EXPECT_TRUE(same_bits(got.o.get(), want.o.get())) << exec.concurrency() << " threads";
    EXPECT_TRUE(same_bits(got.lse.get(), want.lse.get())) << exec.concurrency() << " threads";
    EXPECT_TRUE(same_bits(got.dqkv.get(), want.dqkv.get())) << exec.concurrency() << " threads";
  }
}

INSTANTIATE_TEST_SUITE_P(, PortableAttention, ::testing::Values(DType::fp32, DType::bf16));

TEST(PortableAttentionErrors, NameWhatIsWrong) {
  const Buffer qkv({3, 3 * 300}, DType::fp32), o({3, 300}, DType::fp32), lse({3}, DType::fp32);
  EXPECT_THROW(kernels::portable_attention_forward(Exec(), o, lse, qkv, {1, 3, 1, 1, 300}), base::Error);
  EXPECT_THROW(kernels::portable_attention_forward(Exec(), o, lse, qkv, {1, 3, 3, 2, 50}), base::Error);
  EXPECT_THROW(kernels::portable_attention_forward(Exec(), o, lse, qkv, {1, 3, 1, 1, 200}), base::Error);
}

}  // namespace
}  // namespace shard8::tests
