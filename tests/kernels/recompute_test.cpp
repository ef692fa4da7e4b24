// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/elementwise.hpp"
#include "tests/kernels/fused.hpp"

/// What backward recomputes has the bytes that forward gave.
namespace shard8::tests {
namespace {

// Rows and columns that are not whole packs; whole packs; several tiles, not all whole.
const std::vector<Shape> kShapes{{1, 1}, {3, 515}, {48, 80}, {32, 512}, {144, 264}};

class Recompute : public WithFusedCase {};

/// Asks for the cast alone; where the shape is a matrix, only the transposed cast is read.
Outputs transposed_alone(Memory& memory) {
  Outputs out = memory.outputs();
  out.transposed_alone = true;
  out.counts = nullptr;
  return out;
}
/// Asks for everything but the transposed cast.
Outputs not_transposed(Memory& memory) {
  Outputs out = memory.outputs();
  out.transposed = {};
  return out;
}
void expect_same_transposed(const Memory& got, const Memory& want) {
  EXPECT_TRUE(same_bits(bytes_of(got.transposed), bytes_of(want.transposed)));
  EXPECT_EQ(got.scale_inv.get(), want.scale_inv.get());
}
constexpr Parts kCast{false, false, true, DType::e4m3}, kPlain{true, false, false};

TEST_P(Recompute, Rmsnorm) {
  for (const auto& shape : kShapes) {
    SCOPED_TRACE(to_string(shape));
    const auto x = norm_input(shape, 1), w = normal({shape[1]}, 2);
    const Buffer rstd({shape[0]}, DType::fp32), forward(shape, dtype_), recomputed(shape, dtype_);
    kernels::rmsnorm_forward(Exec(), forward, rstd, x, w, 1e-5f);
    kernels::rmsnorm_recompute(Exec(), recomputed, rstd, x, w);
    EXPECT_TRUE(same_bits(bytes_of(recomputed), bytes_of(forward)));
    const auto run = [&](const Exec& exec, const Outputs& y) { kernels::rmsnorm_recompute(exec, y, rstd, x, w); };
    expect_fused_equals_unfused(shape, dtype_, {x, w, rstd}, run);
    Memory want(shape, dtype_, kCast, 3), got(shape, dtype_, kCast, 3);
    kernels::rmsnorm_forward(Exec(), want.outputs(), rstd, x, w, 1e-5f);
    run(Exec(), transposed_alone(got));
    expect_same_transposed(got, want);
  }
}

TEST_P(Recompute, Layernorm) {
  for (const auto& shape : kShapes) {
    SCOPED_TRACE(to_string(shape));
    const auto x = norm_input(shape, 1), w = normal({shape[1]}, 2), b = normal({shape[1]}, 3);
    const Buffer mean({shape[0]}, DType::fp32), rstd({shape[0]}, DType::fp32), forward(shape, dtype_),
        recomputed(shape, dtype_);
    kernels::layernorm_forward(Exec(), forward.tensor(), mean, rstd, x, w, b, 1e-5f);
    kernels::layernorm_recompute(Exec(), recomputed.tensor(), mean, rstd, x, w, b);
    EXPECT_TRUE(same_bits(bytes_of(recomputed), bytes_of(forward)));
    const auto run = [&](const Exec& exec, const Outputs& y) {
      kernels::layernorm_recompute(exec, y, mean, rstd, x, w, b);
    };
    expect_fused_equals_unfused(shape, dtype_, {x, w, b, mean, rstd}, run);
    Memory want(shape, dtype_, kCast, 3), got(shape, dtype_, kCast, 3);
    kernels::layernorm_forward(Exec(), want.outputs(), mean, rstd, x, w, b, 1e-5f);
    run(Exec(), transposed_alone(got));
    expect_same_transposed(got, want);
  }
}

/// Compares forward(a) with backward(d, recomputed) of one kind of activation, for d of shape `wide`.
template <class Forward, class Backward>
void expect_recomputed(const Shape& shape, const Shape& wide, DType dtype, const Forward& forward,
                       const Backward& backward) {
  for (const auto& parts : all_parts()) {
    SCOPED_TRACE(to_string(parts));
    Memory gradient(wide, dtype, parts, 30);
    backward(gradient.outputs(), Outputs());
    for (const auto& asked : {kPlain, kCast}) {
      SCOPED_TRACE("recomputed " + to_string(asked));
      Memory want(shape, dtype, asked, 5), got(shape, dtype, asked, 5), with_recomputed(wide, dtype, parts, 30);
      forward(want.outputs());
      backward(with_recomputed.outputs(), got.outputs());
      expect_same(got, want);
      expect_same(with_recomputed, gradient);
    }
    Memory want(shape, dtype, kCast, 5), got(shape, dtype, kCast, 5), with_recomputed(wide, dtype, parts, 30);
    forward(want.outputs());
    backward(with_recomputed.outputs(), transposed_alone(got));
    expect_same_transposed(got, want);
    expect_same(with_recomputed, gradient);
    Memory in_rows(wide, dtype, parts, 30), in_rows_with_recomputed(wide, dtype, parts, 30),
        once_more(shape, dtype, kCast, 5);
    backward(not_transposed(in_rows), Outputs());
    backward(not_transposed(in_rows_with_recomputed), transposed_alone(once_more));
    expect_same_transposed(once_more, want);
    expect_same(in_rows_with_recomputed, in_rows);
  }
}

TEST_P(Recompute, Swiglu) {
  for (const auto& shape : kShapes) {
    SCOPED_TRACE(to_string(shape));
    const Shape wide{shape[0], 2 * shape[1]};
    const auto gate_up = input(wide, 1), da = normal(shape, 2);
    expect_recomputed(
        shape, wide, dtype_, [&](const Outputs& a) { kernels::swiglu_forward(Exec(), a, gate_up); },
        [&](const Outputs& d, const Outputs& recomputed) {
          kernels::swiglu_backward(Exec(), d, da, gate_up, recomputed);
        });
  }
}

TEST_P(Recompute, Gelu) {
  for (const auto& shape : kShapes) {
    SCOPED_TRACE(to_string(shape));
    const auto x = input(shape, 1), da = normal(shape, 2);
    expect_recomputed(
        shape, shape, dtype_, [&](const Outputs& a) { kernels::gelu_forward(Exec(), a, x); },
        [&](const Outputs& d, const Outputs& recomputed) { kernels::gelu_backward(Exec(), d, da, x, recomputed); });
  }
}

/// The gradient overwrites its input, from which the activation is recomputed as well.
TEST_P(Recompute, InPlace) {
  const Shape shape{144, 264}, wide{144, 528};
  const auto gate_up = input(wide, 1), da = normal(shape, 2);
  Memory want(shape, dtype_, kCast, 5), got(shape, dtype_, kCast, 5);
  kernels::swiglu_forward(Exec(), want.outputs(), gate_up);
  const Buffer apart(wide, dtype_), over(wide, dtype_);
  kernels::swiglu_backward(Exec(), apart, da, gate_up);
  copy_bytes(over, gate_up);
  kernels::swiglu_backward(Exec(), over, da, over, transposed_alone(got));
  expect_same_transposed(got, want);
  EXPECT_TRUE(same_bits(bytes_of(over), bytes_of(apart)));
}

/// As InPlace, with a cast of the gradient; with the larger scale some of the gradient saturates.
TEST_P(Recompute, InPlaceWithACast) {
  const Shape shape{144, 264}, wide{144, 528};
  const auto gate_up = input(wide, 1), da = normal(shape, 2);
  const bool tiny = GetParam().kind == Kind::zero || GetParam().kind == Kind::subnormal;
  for (const double scale : {30.0, 3e5}) {
    Memory apart(wide, dtype_, {true, true, true, DType::e5m2}, scale),
        over(wide, dtype_, {true, true, true, DType::e5m2}, scale);
    const auto before = apart.counts.get();
    kernels::swiglu_backward(Exec(), apart.outputs(), da, gate_up);
    if (scale > 1000 && !tiny) {
      EXPECT_GT(apart.counts.get().saturated, before.saturated);
    }
    copy_bytes(over.plain, gate_up);
    kernels::swiglu_backward(Exec(), over.outputs(), da, over.plain);
    expect_same(over, apart);
  }
}

TEST_P(Recompute, QuantizeTranspose) {
  for (const auto& shape : kShapes) {
    SCOPED_TRACE(to_string(shape));
    const auto x = input(shape, 1);
    Memory want(shape, dtype_, kCast, 3), got(shape, dtype_, kCast, 3);
    kernels::quantize_transpose(Exec(), want.operand(), want.transposed, Tensor{}, x, want.scale, {});
    kernels::quantize_transpose(Exec(), got.operand(), got.transposed, Tensor{}, x, got.scale,
                                {.transposed_alone = true});
    expect_same_transposed(got, want);
  }
}

INSTANTIATE_TEST_SUITE_P(, Recompute, ::testing::ValuesIn(fused_cases()), label);

}  // namespace
}  // namespace shard8::tests
