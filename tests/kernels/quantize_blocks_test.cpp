// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

// Block scales against plain scalar code.

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <utility>

#include "base/error.hpp"
#include "kernels/quantize.hpp"
#include "tests/kernels/quantize_cases.hpp"
#include "tests/support/compare.hpp"

namespace shard8::tests {
namespace {

using base::Error;
using kernels::CastCounts;
using tensor::Operand;
using tensor::Scaling;

/// What a quantizer writes.
struct Quantized {
  std::vector<std::uint8_t> data, scale_inv;
  CastCounts counts;
};

/// A quantized matrix with memory of its own.
struct Output {
  Scaling scaling;
  Buffer data, scale_inv;

  Output(Scaling how, const Shape& shape, DType format = DType::e4m3)
      : scaling(how),
        data(shape, format, 3),
        scale_inv(tensor::scale_shape(how, shape[0], shape[1]), tensor::scale_dtype(how), std::nan("")) {}
  operator Operand() const { return {data, scale_inv, scaling}; }  // NOLINT: passed to kernels as it is
  /// The same memory, for the matrix stored transposed.
  Operand transposed() const {
    Operand matrix = *this;
    matrix.data.shape = {data.shape()[1], data.shape()[0]};
    matrix.transposed = true;
    return matrix;
  }
};

/// The reference for one block: returns the scale to multiply with, and appends the bytes of its inverse.
float wide_scale(float amax, DType format, bool power_of_2, std::vector<std::uint8_t>& inverse) {
  const float scale = scale_reference(amax, format == DType::e5m2 ? 57344 : 448, power_of_2);
  const auto bytes = std::bit_cast<std::array<std::uint8_t, 4>>(1.0f / scale);
  inverse.insert(inverse.end(), bytes.begin(), bytes.end());
  return scale;
}
float narrow_scale(float amax, std::vector<std::uint8_t>& inverse) {
  const float quotient = amax / 448.0f;
  if (std::isnan(quotient)) {
    inverse.push_back(255);
    return 0x1p-128f;
  }
  int e = -127;
  while (e < 127 && std::ldexp(1.0, e) < static_cast<double>(quotient)) ++e;
  inverse.push_back(static_cast<std::uint8_t>(e + 127));
  return std::ldexp(1.0f, -e);
}

Quantized reference(Scaling scaling, DType format, const QuantizeInput& input, bool power_of_2) {
  const auto values = input.values();
  const auto rows = static_cast<std::size_t>(input.x.shape()[0]), cols = static_cast<std::size_t>(input.x.shape()[1]);
  const auto high = static_cast<std::size_t>(tensor::block_rows(scaling)),
             across = static_cast<std::size_t>(tensor::block_cols(scaling));
  Quantized out;
  out.data.resize(values.size());
  CastReference cast{reference_of(format)};
  for (std::size_t r0 = 0; r0 < rows; r0 += high) {
    for (std::size_t c0 = 0; c0 < cols; c0 += across) {
      float amax = 0;
      for (std::size_t i = 0; i < high * across; ++i) {
        amax = larger_magnitude(amax, values[(r0 + i / across) * cols + c0 + i % across]);
      }
      const bool narrow = tensor::scale_dtype(scaling) == DType::e8m0;
      const float scale =
          narrow ? narrow_scale(amax, out.scale_inv) : wide_scale(amax, format, power_of_2, out.scale_inv);
      for (std::size_t i = 0; i < high * across; ++i) {
        const std::size_t at = (r0 + i / across) * cols + c0 + i % across;
        out.data[at] = cast(values[at], scale);
      }
    }
  }
  out.counts.saturated = cast.saturated;
  out.counts.flushed = cast.flushed;
  return out;
}

void expect_same(const Output& got, const Quantized& want) {
  EXPECT_TRUE(same_bits(raw(got.scale_inv), want.scale_inv)) << "scale_inv";
  EXPECT_TRUE(same_bits(raw(got.data), want.data)) << "data";
}

class QuantizeBlocks : public ::testing::Test {
 protected:
  void check(Scaling scaling, const std::vector<Shape>& shapes, DType format = DType::e4m3) const {
    for (const auto& shape : shapes) {
      for (const auto& input : quantize_inputs(shape)) {
        for (const bool power_of_2 : {false, true}) {
          SCOPED_TRACE(std::string(name_of(scaling)) + " " + to_string(shape) + " " + input.name);
          const Output out(scaling, shape, format);
          Counts counts;
          kernels::quantize_blocks(exec_, out, input.x,
                                   {.through_bf16 = input.through_bf16, .power_of_2 = power_of_2, .counts = counts});
          const auto want = reference(scaling, format, input, power_of_2);
          expect_same(out, want);
          EXPECT_EQ(counts.get().saturated, want.counts.saturated);
          EXPECT_EQ(counts.get().flushed, want.counts.flushed);
          EXPECT_EQ(counts.get().scale_change, 0u) << "what was there was NaN";
        }
      }
    }
  }
  void check_both(Scaling row, Scaling column, const std::vector<Shape>& shapes, DType format = DType::e4m3) const {
    for (const auto& shape : shapes) {
      for (const auto& input : quantize_inputs(shape)) {
        SCOPED_TRACE(to_string(shape) + " " + input.name);
        const Output both_row(row, shape, format), both_column(column, shape, format), one_row(row, shape, format),
            one_column(column, shape, format);
        Counts both, single;
        const auto options = [&](CastCounts* counts) {
          return kernels::CastOptions{.through_bf16 = input.through_bf16, .power_of_2 = true, .counts = counts};
        };
        kernels::quantize_blocks(exec_, both_row, both_column, input.x, options(both));
        kernels::quantize_blocks(exec_, one_row, input.x, options(single));
        kernels::quantize_blocks(exec_, one_column, input.x, options(single));
        expect_same(both_row, {raw(one_row.data), raw(one_row.scale_inv), {}});
        expect_same(both_column, {raw(one_column.data), raw(one_column.scale_inv), {}});
        EXPECT_EQ(both.get().saturated, single.get().saturated);
        EXPECT_EQ(both.get().flushed, single.get().flushed);
      }
    }
  }
  Exec exec_;
};

TEST_F(QuantizeBlocks, Rows) { check(Scaling::row_128, {{1, 128}, {5, 384}, {130, 128}}); }
TEST_F(QuantizeBlocks, Columns) { check(Scaling::column_128, {{128, 1}, {256, 37}, {128, 129}, {128, 136}}); }
TEST_F(QuantizeBlocks, RowsOfE5M2) { check(Scaling::row_128, {{1, 128}, {5, 384}, {130, 128}}, DType::e5m2); }
TEST_F(QuantizeBlocks, ColumnsOfE5M2) {
  check(Scaling::column_128, {{128, 1}, {256, 37}, {128, 129}, {128, 136}}, DType::e5m2);
}
TEST_F(QuantizeBlocks, Squares) { check(Scaling::tile_128, {{128, 128}, {256, 128}}); }
TEST_F(QuantizeBlocks, NarrowRows) { check(Scaling::row_32, {{1, 32}, {7, 96}, {35, 160}}); }
TEST_F(QuantizeBlocks, NarrowColumns) { check(Scaling::column_32, {{32, 1}, {96, 37}, {32, 129}, {96, 144}}); }
TEST_F(QuantizeBlocks, BothDirections) { check_both(Scaling::row_128, Scaling::column_128, {{128, 128}, {256, 256}}); }
TEST_F(QuantizeBlocks, BothDirectionsOfE5M2) {
  check_both(Scaling::row_128, Scaling::column_128, {{128, 128}, {256, 256}}, DType::e5m2);
}
TEST_F(QuantizeBlocks, BothNarrowDirections) { check_both(Scaling::row_32, Scaling::column_32, {{32, 32}, {96, 160}}); }

/// The columnwise cast, alone and beside the rowwise one, stored as (C, R) and as (R, C). Devices write the shapes with
/// 136 and 384 columns by packs, the one with 37 columns element by element.
TEST_F(QuantizeBlocks, ColumnsStoredTransposed) {
  for (const DType format : {DType::e4m3, DType::e5m2}) {
    for (const Shape& shape : {Shape{128, 136}, Shape{256, 384}, Shape{384, 37}}) {
      for (const auto& input : quantize_inputs(shape)) {
        SCOPED_TRACE(std::string(name_of(format)) + " " + to_string(shape) + " " + input.name);
        const Output plain(Scaling::column_128, shape, format), alone(Scaling::column_128, shape, format),
            beside(Scaling::column_128, shape, format);
        Counts counts, want;
        const auto options = [&](CastCounts* to) {
          return kernels::CastOptions{.through_bf16 = input.through_bf16, .power_of_2 = true, .counts = to};
        };
        kernels::quantize_blocks(exec_, plain, input.x, options(want));
        kernels::quantize_blocks(exec_, alone.transposed(), input.x, options(counts));
        EXPECT_EQ(counts.get().saturated, want.get().saturated);
        EXPECT_EQ(counts.get().flushed, want.get().flushed);
        const auto rows = static_cast<std::size_t>(shape[0]), cols = static_cast<std::size_t>(shape[1]);
        const auto codes = raw(plain.data);
        std::vector<std::uint8_t> transposed(codes.size());
        for (std::size_t i = 0; i < codes.size(); ++i) transposed[i % cols * rows + i / cols] = codes[i];
        expect_same(alone, {transposed, raw(plain.scale_inv), {}});
        if (shape[1] % 128 != 0) continue;
        const Output row(Scaling::row_128, shape, format), plain_row(Scaling::row_128, shape, format);
        kernels::quantize_blocks(exec_, plain_row, input.x, options(want));
        kernels::quantize_blocks(exec_, row, beside.transposed(), input.x, options(counts));
        kernels::quantize_blocks(exec_, plain, input.x, options(want));  // counts grow: both of the row and the columns
        EXPECT_EQ(counts.get().saturated, want.get().saturated);
        EXPECT_EQ(counts.get().flushed, want.get().flushed);
        expect_same(beside, {transposed, raw(plain.scale_inv), {}});
        expect_same(row, {raw(plain_row.data), raw(plain_row.scale_inv), {}});
      }
    }
  }
}

TEST_F(QuantizeBlocks, NothingIsFine) {
  for (const Scaling scaling : {Scaling::row_128, Scaling::column_128, Scaling::tile_128, Scaling::row_32}) {
    kernels::quantize_blocks(exec_, Output(scaling, {0, 256}), Buffer({0, 256}, DType::bf16), {});
  }
}

TEST_F(QuantizeBlocks, ZeroNanAndInfinity) {
  const double inf = HUGE_VAL, nan = std::nan("");
  std::vector<double> values(4 * 32, 0);
  values[40] = nan;
  values[41] = 5;
  values[70] = -inf;
  values[71] = 1e38;
  values[100] = 0x1p-133;
  const Buffer x({4, 32}, DType::fp32, values), out({4, 32}, DType::fp32);
  const Output q(Scaling::row_32, {4, 32});
  kernels::quantize_blocks(exec_, q, x, {});
  EXPECT_EQ(raw(q.scale_inv), (std::vector<std::uint8_t>{0, 255, 254, 0}));
  kernels::dequantize(exec_, out, q);
  const auto back = out.get();
  for (std::size_t i = 0; i < 32; ++i) {
    EXPECT_EQ(back[i], 0) << "a block of zeros is zeros";
    EXPECT_TRUE(std::isnan(back[32 + i])) << "a NaN stays visible";
  }
  EXPECT_EQ(back[70], -inf);
  EXPECT_EQ(back[100], 0x1p-133) << "subnormal numbers live in the smallest scale";
}

TEST_F(QuantizeBlocks, KnowsTheLargestChange) {
  const Shape shape{128, 256};
  const Buffer ones(shape, DType::bf16, 1);
  std::vector<double> values(static_cast<std::size_t>(shape.count()), 1);
  values[5 * 256 + 130] = 8;  // one row block and one column block grow eightfold
  const Buffer grown(shape, DType::bf16, values);
  const std::pair<Scaling, Scaling> pairs[] = {{Scaling::row_128, Scaling::column_128},
                                               {Scaling::row_32, Scaling::column_32}};
  for (const auto& [row_scaling, column_scaling] : pairs) {
    const Output row(row_scaling, shape), column(column_scaling, shape);
    Counts counts;
    const kernels::CastOptions options{.counts = counts, .compare_scales = true};
    const auto change = [&] { return std::bit_cast<float>(counts.get().scale_change); };
    kernels::quantize_blocks(exec_, row, column, ones, options);
    EXPECT_EQ(change(), 0) << "nothing was in place";
    kernels::quantize_blocks(exec_, row, column, ones, options);
    EXPECT_EQ(change(), 1);
    kernels::quantize_blocks(exec_, row, grown, options);
    EXPECT_EQ(change(), 8);
    counts = CastCounts{};
    kernels::quantize_blocks(exec_, column, grown, options);
    EXPECT_EQ(change(), 8);
    counts = CastCounts{};
    kernels::quantize_blocks(exec_, row, column, ones, options);
    EXPECT_EQ(change(), 8) << "down as up";
    kernels::quantize_blocks(exec_, row, column, grown, {.counts = counts});
    EXPECT_EQ(change(), 8);
    counts = CastCounts{};
    kernels::quantize_blocks(exec_, row, column, ones, {.counts = counts});
    EXPECT_EQ(change(), 0) << "compared without being asked";
  }
  const Output tile(Scaling::tile_128, shape);
  Counts counts;
  kernels::quantize_blocks(exec_, tile, ones, {.counts = counts, .compare_scales = true});
  kernels::quantize_blocks(exec_, tile, grown, {.counts = counts, .compare_scales = true});
  EXPECT_EQ(std::bit_cast<float>(counts.get().scale_change), 8);
}

TEST_F(QuantizeBlocks, DoesNotDependOnTheThreads) {
  const Shape shape{256, 384};
  const auto x = Buffer::normal(shape, DType::bf16, 5);
  const Output row(Scaling::row_128, shape), column(Scaling::column_128, shape);
  kernels::quantize_blocks(exec_, row, column, x, {});
  for (const auto& exec : exec_widths()) {
    const Output other_row(Scaling::row_128, shape), other_column(Scaling::column_128, shape);
    kernels::quantize_blocks(exec, other_row, other_column, x, {});
    expect_same(row, {raw(other_row.data), raw(other_row.scale_inv), {}});
    expect_same(column, {raw(other_column.data), raw(other_column.scale_inv), {}});
  }
}

TEST_F(QuantizeBlocks, ChecksItsTensors) {
  const Buffer x({128, 128}, DType::bf16), odd({128, 100}, DType::bf16), data({128, 128}, DType::e4m3);
  const Buffer scales({1, 1}, DType::fp32), odd_data({128, 100}, DType::e4m3), wrong({128, 128}, DType::e5m2);
  const Output row(Scaling::row_128, {128, 128}), column(Scaling::column_32, {128, 128});
  EXPECT_THROW(kernels::quantize_blocks(exec_, Operand(data, scales, Scaling::row_128), x, {}), Error);
  EXPECT_THROW(kernels::quantize_blocks(exec_, Operand(odd_data, scales, Scaling::row_128), odd, {}), Error);
  EXPECT_THROW(kernels::quantize_blocks(exec_, Operand(data, scales, Scaling::tensor), x, {}), Error);
  EXPECT_THROW(kernels::quantize_blocks(exec_, Operand(wrong, scales, Scaling::tile_128), x, {}), Error);
  EXPECT_THROW(kernels::quantize_blocks(exec_, Output(Scaling::row_32, {128, 128}, DType::e5m2), x, {}), Error);
  EXPECT_THROW(kernels::quantize_blocks(exec_, Output(Scaling::row_128, {128, 128}, DType::bf16), x, {}), Error);
  EXPECT_THROW(kernels::quantize_blocks(exec_, Output(Scaling::row_128, {128, 128}, DType::e5m2),
                                        Output(Scaling::column_128, {128, 128}), x, {}),
               Error);
  EXPECT_THROW(kernels::quantize_blocks(exec_, row, column, x, {}), Error);
  EXPECT_THROW(kernels::quantize_blocks(exec_, row, odd, {}), Error);
  EXPECT_THROW(kernels::quantize_blocks(exec_, row.transposed(), x, {}), Error);
  EXPECT_THROW(kernels::quantize_blocks(exec_, column.transposed(), x, {}), Error);
  EXPECT_THROW(kernels::quantize_blocks(exec_, Output(Scaling::tile_128, {128, 128}).transposed(), x, {}), Error);
}

}  // namespace
}  // namespace shard8::tests
