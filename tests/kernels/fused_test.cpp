// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/fused.hpp"

#include "kernels/elementwise.hpp"

namespace shard8::tests {
namespace {

// One row; odd numbers of columns; rows of several stretches of vector code; many rows and stretches; rows of whole
// packs, of which a thread has several; rows that a team or a warp holds in registers; several tiles, not all whole.
const std::vector<Shape> kFusedShapes{{1, 1},    {1, 37},   {3, 515},   {131, 66}, {48, 80},
                                      {2, 5136}, {5, 1024}, {144, 264}, {32, 512}, {9, 4096}};

// The shapes above, and rows that a cluster of blocks on a device holds: by three blocks, and by eight blocks with four
// packs a thread.
std::vector<Shape> norm_shapes() {
  auto shapes = kFusedShapes;
  shapes.push_back({64, 1536});
  shapes.push_back({32, 8192});
  return shapes;
}

class FusedNorm : public WithFusedCase {};
class FusedActivation : public WithFusedCase {};

TEST_P(FusedNorm, Rmsnorm) {
  for (const auto& shape : norm_shapes()) {
    SCOPED_TRACE(to_string(shape));
    const auto x = norm_input(shape, 1), w = normal({shape[1]}, 2);
    const Buffer rstd({shape[0]}, DType::fp32), again({shape[0]}, DType::fp32);
    kernels::rmsnorm_forward(Exec(), Buffer(shape, dtype_), rstd, x, w, 1e-5f);
    expect_fused_equals_unfused(shape, dtype_, {x, w}, [&](const Exec& exec, const Outputs& y) {
      kernels::rmsnorm_forward(exec, y, again, x, w, 1e-5f);
      exec.fence("shard8::tests::fused");
      EXPECT_EQ(bytes_of(again), bytes_of(rstd));
    });
  }
}

TEST_P(FusedNorm, Layernorm) {
  for (const auto& shape : norm_shapes()) {
    SCOPED_TRACE(to_string(shape));
    const auto x = norm_input(shape, 1), w = normal({shape[1]}, 2), b = normal({shape[1]}, 3);
    const Buffer mean({shape[0]}, DType::fp32), rstd({shape[0]}, DType::fp32);
    kernels::layernorm_forward(Exec(), Buffer(shape, dtype_).tensor(), mean, rstd, x, w, b, 1e-5f);
    const Buffer means({shape[0]}, DType::fp32), rstds({shape[0]}, DType::fp32);
    expect_fused_equals_unfused(shape, dtype_, {x, w, b}, [&](const Exec& exec, const Outputs& y) {
      kernels::layernorm_forward(exec, y, means, rstds, x, w, b, 1e-5f);
      exec.fence("shard8::tests::fused");
      EXPECT_EQ(bytes_of(means), bytes_of(mean));
      EXPECT_EQ(bytes_of(rstds), bytes_of(rstd));
    });
  }
}

/// More rows than all clusters of a device take at once, so that each takes several groups of rows.
TEST(FusedNormRows, MoreThanClustersHaveAtOnce) {
  const Shape shape = tensor::kDevice ? Shape{4832, 4096} : Shape{640, 512};
  const auto x = Buffer::normal(shape, DType::bf16, 1, 2), w = Buffer::normal({shape[1]}, DType::bf16, 2),
             b = Buffer::normal({shape[1]}, DType::bf16, 3);
  const Buffer mean({shape[0]}, DType::fp32), rstd({shape[0]}, DType::fp32), plain(shape, DType::bf16);
  const auto compare = [&](const auto& run) {
    run(Outputs(plain.tensor()));
    for (const double scale : {700.0, 60.0}) {
      SCOPED_TRACE("scale " + digits(scale));
      Memory want(shape, DType::bf16, {false, true, true}, scale), got(shape, DType::bf16, {false, true, true}, scale);
      want.leave(Exec(), plain);
      run(got.outputs());
      Exec().fence("shard8::tests::fused");
      expect_same(got, want);
    }
  };
  compare([&](const Outputs& y) { kernels::rmsnorm_forward(Exec(), y, rstd, x, w, 1e-5f); });
  compare([&](const Outputs& y) { kernels::layernorm_forward(Exec(), y, mean, rstd, x, w, b, 1e-5f); });
}

TEST_P(FusedActivation, Swiglu) {
  for (const auto& shape : kFusedShapes) {
    SCOPED_TRACE(to_string(shape));
    const Shape wide{shape[0], 2 * shape[1]};
    const auto gate_up = input(wide, 1), da = normal(shape, 2);
    expect_fused_equals_unfused(shape, dtype_, {gate_up},
                                [&](const Exec& exec, const Outputs& a) { kernels::swiglu_forward(exec, a, gate_up); });
    expect_fused_equals_unfused(wide, dtype_, {gate_up, da}, [&](const Exec& exec, const Outputs& dgate_up) {
      kernels::swiglu_backward(exec, dgate_up, da, gate_up);
    });
  }
}

TEST_P(FusedActivation, Gelu) {
  for (const auto& shape : kFusedShapes) {
    SCOPED_TRACE(to_string(shape));
    const auto x = input(shape, 1), da = normal(shape, 2);
    expect_fused_equals_unfused(shape, dtype_, {x},
                                [&](const Exec& exec, const Outputs& a) { kernels::gelu_forward(exec, a, x); });
    expect_fused_equals_unfused(shape, dtype_, {x, da},
                                [&](const Exec& exec, const Outputs& dx) { kernels::gelu_backward(exec, dx, da, x); });
  }
}

/// The gradient overwrites its input, and is quantized in the same pass.
TEST_P(FusedActivation, InPlace) {
  const Shape shape{21, 35}, wide{21, 70};
  const auto in_place = [&](const Shape& extents, const auto& run) {
    for (const auto& parts : all_parts()) {
      if (!parts.plain) continue;
      SCOPED_TRACE(to_string(parts));
      const auto da = normal(shape, 2), x = input(extents, 1);
      Memory apart(extents, dtype_, parts, 30), over(extents, dtype_, parts, 30);
      run(apart.outputs(), da, x);
      copy_bytes(over.plain, x);
      run(over.outputs(), da, over.plain);
      expect_same(over, apart);
    }
  };
  in_place(wide, [](const Outputs& out, const Tensor& da, const Tensor& gate_up) {
    kernels::swiglu_backward(Exec(), out, da, gate_up);
  });
  in_place(shape,
           [](const Outputs& out, const Tensor& da, const Tensor& x) { kernels::gelu_backward(Exec(), out, da, x); });
}

INSTANTIATE_TEST_SUITE_P(, FusedNorm, ::testing::ValuesIn(fused_cases()), label);
INSTANTIATE_TEST_SUITE_P(, FusedActivation, ::testing::ValuesIn(fused_cases()), label);

/// The two scales of these tests do what they are for: with the large one elements saturate, with the small one
/// elements become zero.
TEST(FusedInputs, SaturateFlushAndStayFinite) {
  const auto x = draw(Kind::random, {131, 66}, DType::bf16, 1), w = Buffer::normal({66}, DType::bf16, 2);
  const Buffer rstd({131}, DType::fp32);
  for (const double scale : {700.0, 3e-4}) {
    Memory left({131, 66}, DType::bf16, {false, true, true, DType::e4m3}, scale);
    kernels::rmsnorm_forward(Exec(), left.outputs(), rstd, x, w, 1e-5f);
    EXPECT_EQ(left.counts.get().saturated > 3, scale > 1);
    EXPECT_EQ(left.counts.get().flushed > 5, scale < 1);
    EXPECT_GT(left.amax.get()[0], 0x3f800000);  // more than 1
    EXPECT_EQ(left.scale_inv.get()[0], static_cast<double>(1.0f / static_cast<float>(scale)));
  }
}

TEST(FusedErrors, SaysWhatDoesNotFit) {
  const Shape shape{4, 6};
  const Buffer x(shape, DType::bf16, 1), w({6}, DType::bf16, 1), rstd({4}, DType::fp32), few({4, 5}, DType::bf16);
  const Buffer two({2}, DType::i32), wide({4, 12}, DType::bf16);
  const auto run = [&](const Outputs& y) { kernels::rmsnorm_forward(Exec(), y, rstd, x, w, 1e-5f); };
  const auto message = [](const auto& f) -> std::string {
    try {
      f();
    } catch (const base::Error& e) {
      return e.what();
    }
    return "no error";
  };
  const auto has = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  EXPECT_TRUE(has(message([&] { run(few); }), "rmsnorm_forward: y is (4, 5), 24 elements needed"));
  EXPECT_TRUE(has(message([&] { run({}); }), "rmsnorm_forward: y is (), 24 elements needed"));
  EXPECT_TRUE(has(message([&] { run(Buffer(shape, DType::fp32)); }), "read as bf16"));
  EXPECT_TRUE(has(message([&] { kernels::swiglu_forward(Exec(), few, wide); }), "gate_up is (4, 12), 40 elements"));

  Memory memory(shape, DType::bf16, {false, false, true, DType::e4m3}, 2);
  auto out = memory.outputs();
  run(out);
  out.amax = two;
  EXPECT_TRUE(has(message([&] { run(out); }), "amax is (2), 1 elements needed"));
  out = memory.outputs();
  out.scale = {};
  EXPECT_TRUE(has(message([&] { run(out); }), "scale is (), 1 elements needed"));
  out = memory.outputs();
  out.transposed = two;
  EXPECT_TRUE(has(message([&] { run(out); }), "transposed is (2), 24 elements needed"));
  out = memory.outputs();
  out.quantized.scaling = tensor::Scaling::row_128;
  EXPECT_TRUE(has(message([&] { run(out); }), "allowed is"));
  out = memory.outputs();
  out.quantized.data.dtype = DType::u8;
  EXPECT_TRUE(has(message([&] { run(out); }), "allowed are e4m3 and e5m2"));
}

/// A shard without rows still gets its inverse scale.
TEST(FusedErrors, NoRowsStillHaveAScale) {
  const Shape none{0, 6};
  const Buffer x(none, DType::bf16), w({6}, DType::bf16, 1), rstd({0}, DType::fp32);
  Memory memory(none, DType::bf16, {true, true, true, DType::e4m3}, 4);
  kernels::rmsnorm_forward(Exec(), memory.outputs(), rstd, x, w, 1e-5f);
  EXPECT_EQ(memory.scale_inv.get()[0], 0.25);
  kernels::rmsnorm_forward(Exec(), memory.plain, rstd, x, w, 1e-5f);
}

}  // namespace
}  // namespace shard8::tests
