// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/elementwise.hpp"
#include "tests/kernels/fused.hpp"

/// A kernel that casts its result with block scales writes the bytes of the plain result, cast by quantize_blocks.
namespace shard8::tests {
namespace {

using tensor::Operand;
using tensor::Scaling;

/// Which casts are asked for.
struct Asked {
  bool rowwise, columnwise, transposed;
  DType format = DType::e4m3;
};
std::string to_string(const Asked& a) {
  return std::string(a.rowwise ? "1x128 " : "") + (a.columnwise ? "128x1 " : "") + (a.transposed ? "transposed " : "") +
         std::string(tensor::name_of(a.format));
}
constexpr Asked kRow{true, false, false}, kColumn{false, true, false}, kTransposed{false, true, true},
    kBoth{true, true, false}, kBothTransposed{true, true, true};

/// Memory for the casts of a matrix. No byte is zero at first.
struct Casts {
  Casts(const Shape& shape, DType dtype, const Asked& what)
      : asked(what),
        plain(shape, dtype, -3.5),
        row(shape, what.format, -2.5),
        column(what.transposed ? turned(shape) : shape, what.format, -1.5),
        row_scales({shape[0], shape[1] / 128}, DType::fp32, 77),
        column_scales({shape[0] / 128, shape[1]}, DType::fp32, 78) {}

  kernels::BlockCasts blocks() const {
    kernels::BlockCasts casts;
    if (asked.rowwise) casts.rowwise = Operand(row, row_scales, Scaling::row_128);
    if (asked.columnwise) casts.columnwise = Operand(column, column_scales, Scaling::column_128);
    casts.columnwise.transposed = asked.transposed;
    casts.power_of_2 = true;
    return casts;
  }
  Outputs outputs() {
    Outputs out = plain.tensor();
    out.blocks = blocks();
    out.counts = counts;
    return out;
  }

  Asked asked;
  Buffer plain, row, column, row_scales, column_scales;
  Counts counts{{3, 5, 7, 0}};
};

void expect_same(const Casts& got, const Casts& want) {
  EXPECT_TRUE(same_bits(bytes_of(got.row), bytes_of(want.row))) << "rowwise";
  EXPECT_TRUE(same_bits(bytes_of(got.column), bytes_of(want.column))) << "columnwise";
  EXPECT_TRUE(same_bits(bytes_of(got.row_scales), bytes_of(want.row_scales))) << "scales of rows";
  EXPECT_TRUE(same_bits(bytes_of(got.column_scales), bytes_of(want.column_scales))) << "scales of columns";
  EXPECT_EQ(got.counts.get().saturated, want.counts.get().saturated);
  EXPECT_EQ(got.counts.get().flushed, want.counts.get().flushed);
}

class FusedBlocks : public WithFusedCase {
 protected:
  /// The casts that run(plain output) and one quantize_blocks for each direction write.
  template <class F>
  void cast_afterwards(Casts& want, const F& run) const {
    run(Outputs(want.plain.tensor()));
    const kernels::BlockCasts blocks = want.blocks();
    const kernels::CastOptions options{.power_of_2 = true, .counts = want.counts};
    for (const Operand& one : {blocks.rowwise, blocks.columnwise})
      if (!one.empty()) kernels::quantize_blocks(Exec(), one, want.plain, options);
  }
  /// Compares run(outputs) of a matrix of `shape` with the casts made afterwards.
  template <class F>
  void compare(const Shape& shape, std::initializer_list<Asked> all, const F& run) const {
    for (const Asked& asked : all) {
      if (asked.columnwise && shape[0] % 128 != 0) continue;
      SCOPED_TRACE(tensor::to_string(shape) + " " + to_string(asked));
      Casts want(shape, dtype_, asked), got(shape, dtype_, asked);
      cast_afterwards(want, run);
      run(got.outputs());
      expect_same(got, want);
    }
  }
};

// One panel; rows below the last whole panel; more panels across and down.
const std::vector<Shape> kBlockShapes{{128, 128}, {37, 256}, {256, 512}};

TEST_P(FusedBlocks, Norms) {
  auto shapes = kBlockShapes;
  shapes.push_back({160, 1536});  // rows that a cluster of blocks on a device holds
  for (const auto& shape : shapes) {
    const auto x = norm_input(shape, 1), w = normal({shape[1]}, 2), b = normal({shape[1]}, 3);
    const Buffer mean({shape[0]}, DType::fp32), rstd({shape[0]}, DType::fp32);
    const auto all = {kRow, kColumn, kTransposed, kBoth, kBothTransposed};
    compare(shape, all, [&](const Outputs& y) { kernels::rmsnorm_forward(Exec(), y, rstd, x, w, 1e-5f); });
    const auto statistics = bytes_of(rstd);
    compare(shape, all, [&](const Outputs& y) { kernels::rmsnorm_recompute(Exec(), y, rstd, x, w); });
    EXPECT_EQ(bytes_of(rstd), statistics);
    compare(shape, {kRow, kTransposed},
            [&](const Outputs& y) { kernels::layernorm_forward(Exec(), y, mean, rstd, x, w, b, 1e-5f); });
    compare(shape, {kTransposed},
            [&](const Outputs& y) { kernels::layernorm_recompute(Exec(), y, mean, rstd, x, w, b); });
  }
}

TEST_P(FusedBlocks, Activations) {
  for (const auto& shape : kBlockShapes) {
    const auto x = input({shape[0], 2 * shape[1]}, 1), one = input(shape, 2);
    compare(shape, {kRow, kColumn, kTransposed, kBoth, kBothTransposed},
            [&](const Outputs& a) { kernels::swiglu_forward(Exec(), a, x); });
    compare(shape, {kRow, kBothTransposed}, [&](const Outputs& a) { kernels::gelu_forward(Exec(), a, one); });
  }
}

TEST_P(FusedBlocks, Gradients) {
  for (const auto& shape : {Shape{128, 128}, Shape{256, 384}}) {
    const Shape wide{shape[0], 2 * shape[1]};
    const auto gate_up = input(wide, 1), da = normal(shape, 2);
    for (const DType format : {DType::e4m3, DType::e5m2}) {
      compare(wide, {{true, true, true, format}, {true, true, false, format}, {false, true, true, format}},
              [&](const Outputs& d) { kernels::swiglu_backward(Exec(), d, da, gate_up); });
      // The gradient overwrites its input, from which the activation is recomputed.
      for (const Asked& again : {kTransposed, kColumn, kBothTransposed}) {
        SCOPED_TRACE(tensor::to_string(shape) + " recomputed " + to_string(again));
        const Asked asked{true, true, true, format};
        Casts want(wide, dtype_, asked), got(wide, dtype_, asked), want_again(shape, dtype_, again),
            got_again(shape, dtype_, again);
        cast_afterwards(want, [&](const Outputs& d) { kernels::swiglu_backward(Exec(), d, da, gate_up); });
        cast_afterwards(want_again, [&](const Outputs& a) { kernels::swiglu_forward(Exec(), a, gate_up); });
        copy_bytes(got.plain, gate_up);
        kernels::swiglu_backward(Exec(), got.outputs(), da, got.plain, got_again.outputs());
        expect_same(got, want);
        expect_same(got_again, want_again);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, FusedBlocks, ::testing::ValuesIn(fused_cases()), label);

TEST(FusedBlocksErrors, SaysWhatDoesNotFit) {
  const Shape shape{128, 128};
  const Buffer gate_up({128, 256}, DType::bf16, 1), one({1}, DType::fp32, 1), bits({1}, DType::i32);
  const auto expect_error = [&](const Outputs& a, const char* part) {
    try {
      kernels::swiglu_forward(Exec(), a, gate_up);
      ADD_FAILURE() << "no error";
    } catch (const base::Error& e) {
      EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
    }
  };
  Casts casts(shape, DType::bf16, kBoth);
  Outputs out = casts.outputs();
  out.plain = {};
  expect_error(out, "a is (), 16384 elements needed");
  out = casts.outputs();
  out.amax = bits;
  expect_error(out, "a is cast with block scales and also with one scale; one of them is allowed");
  out = casts.outputs();
  out.blocks.rowwise.scaling = Scaling::row_32;
  expect_error(out, "a scaled by 1x32; allowed is 1x128");
  out = casts.outputs();
  out.blocks.columnwise.scale_inv = one;
  expect_error(out, "scale_inv is (1), 128 elements needed");
}

}  // namespace
}  // namespace shard8::tests
