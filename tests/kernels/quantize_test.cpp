// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

// Casts with one scale: amax, scale, quantize, transpose and back, against plain scalar code.

#include "kernels/quantize.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <limits>

#include "base/error.hpp"
#include "tests/kernels/quantize_cases.hpp"
#include "tests/support/compare.hpp"

namespace shard8::tests {
namespace {

using base::Error;
using tensor::Operand;
using tensor::Scaling;

/// One row, few columns, no multiple of a vector, several stretches of work.
const std::vector<Shape> kShapes{{1, 1}, {1, 77}, {3, 5}, {9, 129}, {64, 128}, {29, 331}, {48, 208}, {144, 264}};
constexpr float kInf = std::numeric_limits<float>::infinity();

Buffer bits_of(const std::vector<float>& values) {
  std::vector<double> bits;
  for (const float v : values) bits.push_back(std::bit_cast<std::int32_t>(v));
  return {{static_cast<std::int64_t>(values.size())}, DType::i32, bits};
}
std::int32_t magnitude_bits(float x) {
  return static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(x) & 0x7fffffffu);
}

class Amax : public ::testing::Test {
 protected:
  Exec exec_;
};
class ScaleOfAmax : public Amax {
 protected:
  std::vector<float> scales(const std::vector<float>& amaxes, const kernels::ScaleRule& rule) const {
    const Buffer scale({static_cast<std::int64_t>(amaxes.size())}, DType::fp32, -7);
    kernels::scale_of_amax(exec_, scale, Tensor{}, bits_of(amaxes), rule, false);
    return elements<float>(scale);
  }
};
class Quantize : public Amax {};
class QuantizeTranspose : public Amax {};
class TransposeBytes : public Amax {};
class Dequantize : public Amax {};

TEST_F(Amax, IsTheLargestByBits) {
  for (const auto& shape : kShapes) {
    for (const auto& input : quantize_inputs(shape)) {
      SCOPED_TRACE(to_string(shape) + " " + input.name);
      std::int32_t want = 0;
      for (const float v : input.values()) want = std::max(want, magnitude_bits(v));
      for (const std::int32_t before : {0, 0x3f800000}) {
        const Buffer amax({1}, DType::i32, before);
        kernels::amax(exec_, amax, input.x, {.through_bf16 = input.through_bf16});
        EXPECT_EQ(elements<std::int32_t>(amax)[0], std::max(want, before));
      }
    }
  }
}

TEST_F(Amax, DoesNotDependOnTheThreads) {
  const auto x = Buffer::normal({300, 331}, DType::bf16, 5);
  std::int32_t want = 0;
  for (const double v : x.get()) want = std::max(want, magnitude_bits(static_cast<float>(v)));
  for (const auto& exec : exec_widths()) {
    const Buffer amax({1}, DType::i32);
    kernels::amax(exec, amax, x, {});
    EXPECT_EQ(elements<std::int32_t>(amax)[0], want);
  }
}

TEST_F(Amax, NanWinsAndSignsDoNotCount) {
  const auto amax_of = [&](const std::vector<double>& values) {
    const Buffer amax({1}, DType::i32);
    kernels::amax(exec_, amax, Buffer({static_cast<std::int64_t>(values.size())}, DType::fp32, values), {});
    return std::bit_cast<float>(elements<std::int32_t>(amax)[0]);
  };
  EXPECT_EQ(amax_of({1, -3, 2}), 3);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(amax_of({-0.0, -0.0})), 0u);
  EXPECT_EQ(amax_of({1, -HUGE_VAL}), kInf);
  EXPECT_TRUE(std::isnan(amax_of({1, HUGE_VAL, -std::nan(""), 5})));
  EXPECT_EQ(amax_of({1e-45}), std::numeric_limits<float>::denorm_min());
}

TEST_F(Amax, OfNothingChangesNothing) {
  const Buffer amax({1}, DType::i32, 17), x({0, 8}, DType::bf16);
  kernels::amax(exec_, amax, x, {});
  EXPECT_EQ(elements<std::int32_t>(amax)[0], 17);
}

TEST_F(ScaleOfAmax, EqualsTheFormula) {
  const auto amaxes = elements<float>(Buffer::normal({4000}, DType::fp32, 3));
  std::vector<float> positive;
  for (std::size_t i = 0; i < amaxes.size(); ++i) {
    positive.push_back(std::ldexp(std::abs(amaxes[i]), static_cast<int>(i % 240) - 120));
  }
  for (const float largest : {448.0f, 57344.0f}) {
    for (const int margin : {0, 1, 3, -2}) {
      for (const bool power_of_2 : {false, true}) {
        SCOPED_TRACE(std::to_string(largest) + " " + std::to_string(margin));
        const auto got = scales(positive, {largest, margin, power_of_2});
        std::vector<float> want;
        for (const float a : positive) {
          want.push_back(scale_reference(a, std::ldexp(static_cast<double>(largest), -margin), power_of_2));
        }
        EXPECT_TRUE(same_bits(got, want));
      }
    }
  }
}

TEST_F(ScaleOfAmax, WhatHasNoScaleGetsOne) {
  for (const bool power_of_2 : {false, true}) {
    EXPECT_EQ(scales({0, kInf, std::nanf(""), -0.0f}, {448, 0, power_of_2}), (std::vector<float>{1, 1, 1, 1}));
  }
}

TEST_F(ScaleOfAmax, StaysFinite) {
  const float tiny = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(scales({tiny, 1e-40f, 1e-36f}, {448, 0, false}), (std::vector<float>(3, FLT_MAX)));
  EXPECT_EQ(scales({tiny, 1e-36f}, {448, 0, true}), (std::vector<float>(2, 0x1p127f)));
  EXPECT_LT(scales({1e-35f}, {448, 0, false})[0], FLT_MAX);
  EXPECT_EQ(scales({FLT_MAX}, {448, 0, false})[0], 448.0f / FLT_MAX);
  // A scale below the normal numbers is floored to a power of two as well.
  EXPECT_EQ(scales({0x1.8p127f}, {448, 10, true})[0], 0x1p-129f);
}

TEST_F(ScaleOfAmax, KnownValues) {
  EXPECT_EQ(scales({448, 1, 3, 3.5f}, {448, 0, false}), (std::vector<float>{1, 448, 448.0f / 3, 128}));
  EXPECT_EQ(scales({448, 1, 3, 3.5f}, {448, 0, true}), (std::vector<float>{1, 256, 128, 128}));
  EXPECT_EQ(scales({1, 2}, {57344, 2, false}), (std::vector<float>{14336, 7168}));
}

TEST_F(ScaleOfAmax, KeepsTheLargestChangeAndClears) {
  const Buffer scale({3}, DType::fp32, std::vector<double>{4, 448, 100});
  const auto change = bits_of({1, 1, 1});
  const auto amax = bits_of({28, 1, 448});
  kernels::scale_of_amax(exec_, scale, change, amax, {}, false);
  EXPECT_EQ(elements<float>(scale), (std::vector<float>{16, 448, 1}));
  EXPECT_EQ(elements<float>(change), (std::vector<float>{4, 1, 100}));
  EXPECT_NE(elements<std::int32_t>(amax)[0], 0);
  kernels::scale_of_amax(exec_, scale, change, bits_of({14, 2, 448}), {}, false);
  EXPECT_EQ(elements<float>(change), (std::vector<float>{4, 2, 100}));
  kernels::scale_of_amax(exec_, scale, change, amax, {}, true);
  EXPECT_EQ(elements<std::int32_t>(amax), (std::vector<std::int32_t>{0, 0, 0}));
}

TEST_F(ScaleOfAmax, KeepsTheScaleOfNothing) {
  const Buffer scale({3}, DType::fp32, std::vector<double>{4, 448, 100});
  const auto change = bits_of({0, 3, 1});
  kernels::scale_of_amax(exec_, scale, change, bits_of({0, 0, 448}), {}, false, true);
  EXPECT_EQ(elements<float>(scale), (std::vector<float>{4, 448, 1}));
  EXPECT_EQ(elements<float>(change), (std::vector<float>{0, 3, 100}));
}

TEST_F(Quantize, EqualsScalarCode) {
  for (const auto& shape : kShapes) {
    for (const auto& input : quantize_inputs(shape)) {
      for (const DType format : {DType::e4m3, DType::e5m2}) {
        for (const double factor : {137.7, 0x1p-20, static_cast<double>(FLT_MAX)}) {
          SCOPED_TRACE(to_string(shape) + " " + input.name + " " + std::string(name_of(format)));
          const Buffer scale({1}, DType::fp32, factor), data(shape, format), scale_inv({1}, DType::fp32),
              amax({1}, DType::i32);
          Counts counts{{5, 7, 0, 0}};
          kernels::quantize(exec_, Operand(data, scale_inv, Scaling::tensor), amax, input.x, scale,
                            {.through_bf16 = input.through_bf16, .counts = counts});
          CastReference cast{reference_of(format)};
          std::vector<std::uint8_t> want;
          std::int32_t largest = 0;
          for (const float v : input.values()) {
            want.push_back(cast(v, static_cast<float>(factor)));
            largest = std::max(largest, magnitude_bits(v));
          }
          EXPECT_TRUE(same_bits(raw(data), want));
          EXPECT_EQ(elements<float>(scale_inv)[0], 1.0f / static_cast<float>(factor));
          EXPECT_EQ(elements<std::int32_t>(amax)[0], largest);
          EXPECT_EQ(counts.get().saturated, 5 + cast.saturated);
          EXPECT_EQ(counts.get().flushed, 7 + cast.flushed);
          EXPECT_EQ(counts.get().scale_change, 0u);
        }
      }
    }
  }
}

TEST_F(Quantize, CountsExactly) {
  const Buffer x({8}, DType::fp32, std::vector<double>{464, 465, HUGE_VAL, -HUGE_VAL, std::nan(""), 1e-30, 0, -0.0});
  const Buffer data({8}, DType::e4m3), one({1}, DType::fp32, 1), scale_inv({1}, DType::fp32);
  Counts counts;
  kernels::quantize(exec_, Operand(data, scale_inv, Scaling::tensor), Tensor{}, x, one, {.counts = counts});
  EXPECT_EQ(counts.get().saturated, 3u);
  EXPECT_EQ(counts.get().flushed, 1u);
  EXPECT_EQ(raw(data), (std::vector<std::uint8_t>{0x7e, 0x7e, 0x7e, 0xfe, 0x7f, 0, 0, 0x80}));
  const Buffer wide({2}, DType::fp32, std::vector<double>{61439, -61440}), gradient({2}, DType::e5m2);
  kernels::quantize(exec_, Operand(gradient, scale_inv, Scaling::tensor), Tensor{}, wide, one, {.counts = counts});
  EXPECT_EQ(counts.get().saturated, 4u);
}

TEST_F(Quantize, OfNothingLeavesTheInverseScale) {
  const Buffer x({0, 16}, DType::bf16), data({0, 16}, DType::e4m3), transposed({16, 0}, DType::e4m3);
  const Buffer scale({1}, DType::fp32, 4), scale_inv({1}, DType::fp32, -1), other({1}, DType::fp32, -1);
  kernels::quantize(exec_, Operand(data, scale_inv, Scaling::tensor), Tensor{}, x, scale, {});
  EXPECT_EQ(elements<float>(scale_inv)[0], 0.25f);
  kernels::quantize_transpose(exec_, Operand(data, other, Scaling::tensor), transposed, Tensor{}, x, scale, {});
  EXPECT_EQ(elements<float>(other)[0], 0.25f);
}

TEST_F(Quantize, ChecksItsTensors) {
  const Buffer x({4, 4}, DType::bf16), data({4, 4}, DType::e4m3), few({3, 4}, DType::e4m3), one({1}, DType::fp32);
  const Buffer tokens({4, 4}, DType::i32);
  const Tensor none;
  EXPECT_THROW(kernels::quantize(exec_, Operand(few, one, Scaling::tensor), none, x, one, {}), Error);
  EXPECT_THROW(kernels::quantize(exec_, Operand(data, one, Scaling::row_128), none, x, one, {}), Error);
  EXPECT_THROW(kernels::quantize(exec_, Operand(x, one, Scaling::tensor), none, x, one, {}), Error);
  EXPECT_THROW(kernels::quantize(exec_, Operand(data, one, Scaling::tensor), none, tokens, one, {}), Error);
  EXPECT_THROW(kernels::quantize_transpose(exec_, Operand(data, one, Scaling::tensor), few, none, x, one, {}), Error);
}

TEST_F(QuantizeTranspose, EqualsQuantizeThenTranspose) {
  for (const auto& shape : kShapes) {
    for (const auto& input : quantize_inputs(shape)) {
      for (const DType format : {DType::e4m3, DType::e5m2}) {
        SCOPED_TRACE(to_string(shape) + " " + input.name + " " + std::string(name_of(format)));
        const Shape turned{shape[1], shape[0]};
        const Buffer scale({1}, DType::fp32, 33.3), amax({1}, DType::i32), other_amax({1}, DType::i32);
        const Buffer data(shape, format), scale_inv({1}, DType::fp32), transposed(turned, format);
        const Buffer want(shape, format), want_inv({1}, DType::fp32), want_transposed(turned, format);
        Counts counts, want_counts;
        kernels::quantize_transpose(exec_, Operand(data, scale_inv, Scaling::tensor), transposed, amax, input.x, scale,
                                    {.through_bf16 = input.through_bf16, .counts = counts});
        kernels::quantize(exec_, Operand(want, want_inv, Scaling::tensor), other_amax, input.x, scale,
                          {.through_bf16 = input.through_bf16, .counts = want_counts});
        kernels::transpose_bytes(exec_, want_transposed, want);
        EXPECT_TRUE(same_bits(raw(data), raw(want)));
        EXPECT_TRUE(same_bits(raw(transposed), raw(want_transposed)));
        EXPECT_TRUE(same_bits(raw(scale_inv), raw(want_inv)));
        EXPECT_TRUE(same_bits(raw(amax), raw(other_amax)));
        EXPECT_EQ(counts.get().saturated, want_counts.get().saturated);
        EXPECT_EQ(counts.get().flushed, want_counts.get().flushed);
      }
    }
  }
}

TEST_F(TransposeBytes, Transposes) {
  for (const std::int64_t rows : {1, 7, 8, 63, 64, 65, 144, 200}) {
    for (const std::int64_t cols : {1, 5, 8, 127, 128, 136, 208, 300}) {
      SCOPED_TRACE(to_string(Shape{rows, cols}));
      const Buffer in({rows, cols}, DType::u8), out({cols, rows}, DType::u8);
      std::vector<std::uint8_t> from(static_cast<std::size_t>(rows * cols));
      for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::uint8_t>(i * 2654435761u >> 13);
      store(in, from);
      kernels::transpose_bytes(exec_, out, in);
      const auto to = raw(out);
      std::size_t wrong = 0;
      for (std::size_t r = 0; r < static_cast<std::size_t>(rows); ++r) {
        for (std::size_t c = 0; c < static_cast<std::size_t>(cols); ++c) {
          wrong += to[c * static_cast<std::size_t>(rows) + r] != from[r * static_cast<std::size_t>(cols) + c];
        }
      }
      EXPECT_EQ(wrong, 0u);
    }
  }
  EXPECT_THROW(kernels::transpose_bytes(exec_, Buffer({2, 2}, DType::bf16), Buffer({2, 2}, DType::bf16)), Error);
  EXPECT_THROW(kernels::transpose_bytes(exec_, Buffer({2, 3}, DType::u8), Buffer({2, 2}, DType::u8)), Error);
}

/// x rounded once to the dtype: to a multiple of its last place, ties to even.
double round_once(double x, DType dtype) {
  if (dtype == DType::fp32 || !std::isfinite(x) || x == 0) return static_cast<double>(static_cast<float>(x));
  const double place = std::ldexp(1.0, std::max(std::ilogb(x), -126) - 7);
  const double rounded = std::nearbyint(x / place) * place;
  return std::abs(rounded) > 0x1.fep127 ? std::copysign(HUGE_VAL, x) : rounded;
}

TEST_F(Dequantize, RoundsOnce) {
  // With these scales products are next to the middle between two bf16, where rounding twice goes wrong.
  std::vector<double> factors{1, 0.1, 1 / 3.0, 0x1p-130, 0x1.8p120, 0x1.010002p0, 0x1.02fffep0, 0x1.55aaaap-3};
  for (const DType format : {DType::e4m3, DType::e5m2}) {
    const auto reference = reference_of(format);
    const Buffer codes = all_codes(format);
    for (const DType dtype : {DType::fp32, DType::bf16}) {
      for (const double factor : factors) {
        const Buffer scale_inv({1}, DType::fp32, factor), out({256}, dtype);
        kernels::dequantize(exec_, out, Operand(codes, scale_inv, Scaling::tensor));
        const auto got = out.get();
        for (std::size_t c = 0; c < 256; ++c) {
          const double exact = reference.decode(static_cast<std::uint8_t>(c)) * scale_inv.get()[0];
          const double want = round_once(exact, dtype);
          EXPECT_TRUE(std::isnan(want) ? std::isnan(got[c]) : got[c] == want)
              << c << " times " << factor << ": " << got[c] << ", want " << want;
          EXPECT_EQ(std::signbit(got[c]), c >= 128);
        }
      }
    }
  }
}

class DequantizeShapes : public Dequantize, public ::testing::WithParamInterface<Shape> {};

TEST_P(DequantizeShapes, EveryKindOfScale) {
  const std::int64_t rows = GetParam()[0], cols = GetParam()[1];
  const auto codes = Buffer::normal({rows, cols}, DType::e4m3, 11, 30);
  const auto values = codes.get();
  for (const Scaling scaling : {Scaling::tensor, Scaling::row_128, Scaling::column_128, Scaling::tile_128,
                                Scaling::row_32, Scaling::column_32}) {
    SCOPED_TRACE(name_of(scaling));
    const Shape shape = tensor::scale_shape(scaling, rows, cols);
    std::vector<double> factors;
    for (std::int64_t i = 0; i < shape.count(); ++i) factors.push_back(0.01 * static_cast<double>(1 + i % 977));
    const Buffer scale_inv(shape, tensor::scale_dtype(scaling), factors);
    const auto inverses = scale_inv.get();
    for (const DType dtype : {DType::fp32, DType::bf16}) {
      const Buffer out({rows, cols}, dtype);
      kernels::dequantize(exec_, out, Operand(codes, scale_inv, scaling));
      std::vector<double> want;
      for (std::int64_t i = 0; i < rows * cols; ++i) {
        const std::int64_t r = i / cols / tensor::block_rows(scaling), c = i % cols / tensor::block_cols(scaling);
        const std::int64_t at = scaling == Scaling::tensor ? 0 : r * shape[1] + c;
        want.push_back(round_once(values[static_cast<std::size_t>(i)] * inverses[static_cast<std::size_t>(at)], dtype));
      }
      EXPECT_TRUE(same_bits(out.get(), want));
    }
  }
  EXPECT_THROW(kernels::dequantize(exec_, codes, Operand(codes)), Error);
}
// Several blocks down; rows of several packs a thread.
INSTANTIATE_TEST_SUITE_P(, DequantizeShapes, ::testing::Values(Shape{256, 384}, Shape{128, 4224}),
                         [](const auto& shape) { return std::to_string(shape.param[1]); });

/// The step's amaxes replace one row of the history, and the largest of the filled rows gives the scale.
TEST_F(ScaleOfAmax, OfAHistory) {
  constexpr std::int64_t kLength = 700, kFilled = 600, kTensors = 9, kRow = 417;
  std::vector<float> past, now;
  for (std::int64_t i = 0; i < kLength * kTensors; ++i) past.push_back(static_cast<float>(1 + i * 7919 % 10007));
  for (std::int64_t t = 0; t < kTensors; ++t) now.push_back(t % 3 == 0 ? 20000.0f : 0.5f);
  past[kRow * kTensors + 1] = 30000.0f;     // this row is overwritten
  past[kFilled * kTensors + 2] = 30000.0f;  // this row is not filled yet
  for (const auto of : {kernels::AmaxOf::all, kernels::AmaxOf::last}) {
    const Buffer scale({kTensors}, DType::fp32, 1), change({kTensors}, DType::i32, 0), amax = bits_of(now);
    std::vector<double> bits;
    for (const float x : past) bits.push_back(magnitude_bits(x));
    const Buffer history({kLength, kTensors}, DType::i32, bits);
    kernels::delayed_update(exec_, scale, change, history, amax, kRow, kFilled, of, {448, 0, false});
    std::vector<double> scales, kept = bits;
    for (std::int64_t t = 0; t < kTensors; ++t) {
      float largest = now[static_cast<std::size_t>(t)];
      kept[static_cast<std::size_t>(kRow * kTensors + t)] = magnitude_bits(largest);
      for (std::int64_t h = 0; of == kernels::AmaxOf::all && h < kFilled; ++h) {
        if (h != kRow) largest = std::max(largest, past[static_cast<std::size_t>(h * kTensors + t)]);
      }
      scales.push_back(448.0f / largest);
    }
    EXPECT_EQ(scale.get(), scales);
    EXPECT_EQ(history.get(), kept);
    EXPECT_EQ(amax.get(), std::vector<double>(kTensors, 0));
    EXPECT_EQ(change.get(), std::vector<double>(kTensors, std::bit_cast<std::int32_t>(1.0f)));
  }
}

}  // namespace
}  // namespace shard8::tests
