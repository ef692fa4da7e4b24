// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/adamw.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "base/error.hpp"
#include "tests/kernels/buffer.hpp"

namespace shard8::tests {
namespace {

using tensor::Operand;
using tensor::Scaling;

const std::vector<Shape> kShapes{{1, 1},    {257, 1},  {100'003, 1}, {40, 3},   {7, 31},   {33, 32},  {70, 300},
                                 {5, 1023}, {5, 1024}, {9, 1025},    {3, 4096}, {2, 7001}, {66, 1028}};

double total_of(const Exec& exec, const std::vector<Tensor>& tensors) {
  const ExactTotal total;
  for (const Tensor& x : tensors) kernels::sum_of_squares(exec, total, x);
  return total.get();
}

TEST(SumOfSquares, IsInDoubleAndTheSameOnAllThreads) {
  for (const auto& shape : kShapes) {
    SCOPED_TRACE(to_string(shape));
    const auto x = Buffer::normal(shape, DType::fp32, 1);
    double want = 0;
    for (const double v : x.get()) want += v * v;
    const double first = total_of(Exec(), {x});
    EXPECT_NEAR(first, want, 1e-13 * want);
    for (const auto& exec : exec_widths()) EXPECT_EQ(total_of(exec, {x}), first);
    EXPECT_EQ(total_of(Exec(), {x, x}), 2 * first) << "added";
  }
  EXPECT_EQ(total_of(Exec(), {Buffer({0, 3}, DType::fp32)}), 0);
}

// The ranks of a mesh hold rows, in any number of pieces: the sum must not depend on the pieces, nor on where they
// begin in memory. A sum in doubles in row order fails this.
TEST(SumOfSquares, DoesNotDependOnHowRowsAreCut) {
  for (const auto& shape : kShapes) {
    SCOPED_TRACE(to_string(shape));
    const auto x = Buffer::normal(shape, DType::fp32, 3);
    const double whole = total_of(Exec(), {x});
    const Tensor all = x;
    for (const std::int64_t pieces : {2, 3, 8}) {
      const std::int64_t rows = (all.rows() + pieces - 1) / pieces;
      std::vector<Tensor> cut;
      for (std::int64_t first = 0; first < all.rows(); first += rows)
        cut.insert(cut.begin(), all.slice(first, std::min(rows, all.rows() - first)));
      EXPECT_EQ(total_of(Exec(), cut), whole) << pieces;
    }
  }
}

TEST(SumOfSquares, KeepsInfinityAndNan) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  for (const std::int64_t cols : {1, 40, 2000}) {
    Buffer x({3, cols}, DType::fp32, std::vector<double>(static_cast<std::size_t>(3 * cols), 1.0));
    EXPECT_EQ(total_of(Exec(), {x}), 3.0 * static_cast<double>(cols));
    std::vector<double> values(static_cast<std::size_t>(3 * cols), 1.0);
    values.back() = -kInf;
    EXPECT_EQ(total_of(Exec(), {Buffer({3, cols}, DType::fp32, values)}), kInf);
    values.front() = std::nan("");
    EXPECT_TRUE(std::isnan(total_of(Exec(), {Buffer({3, cols}, DType::fp32, values)})));
  }
}

TEST(SquareParts, AreTheSumsOfSegments) {
  for (const auto& shape : kShapes) {
    SCOPED_TRACE(to_string(shape));
    const auto x = Buffer::normal(shape, DType::fp32, 5);
    const std::int64_t count = kernels::square_segments(shape[0], shape[1]);
    const Buffer parts({count * 8}, DType::u8, 0x5a);
    kernels::square_parts(Exec(), parts, x);
    const auto sums = stored<double>(parts);
    const auto values = x.get();
    std::size_t s = 0;
    for (std::int64_t row = 0; row < shape[0]; ++row) {
      for (std::int64_t first = 0; first < shape[1]; first += kernels::kSquareSegment, ++s) {
        double want = 0;
        for (std::int64_t c = first; c < std::min(first + kernels::kSquareSegment, shape[1]); ++c)
          want += std::pow(values[static_cast<std::size_t>(row * shape[1] + c)], 2);
        ASSERT_NEAR(sums.at(s), want, 1e-13 * want) << "segment " << s;
      }
    }
    const ExactTotal total;
    kernels::add_square_parts(Exec(), total, parts);
    EXPECT_EQ(total.get(), total_of(Exec(), {x}));
  }
}

/// An FP8 matrix with every code but NaN in it, and scales.
struct ScaledMatrix {
  Buffer data, scale_inv;
  Operand operand;

  ScaledMatrix(const Shape& shape, DType dtype, Scaling scaling, std::int64_t scales = 1)
      : data(shape, dtype, codes(shape, dtype)),
        scale_inv(scaling == Scaling::tensor ? Shape{scales} : tensor::scale_shape(scaling, shape[0], shape[1]),
                  tensor::scale_dtype(scaling), powers(scaling, shape, scales)),
        operand(data, scale_inv, scaling) {}

  static std::vector<double> codes(const Shape& shape, DType dtype) {
    std::vector<double> values;
    for (std::int64_t i = 0; i < shape[0] * shape[1]; ++i) {
      const auto code = static_cast<std::uint8_t>(i * 37 % 256);
      const float value = dtype == DType::e4m3 ? static_cast<float>(std::bit_cast<tensor::E4M3>(code))
                                               : static_cast<float>(std::bit_cast<tensor::E5M2>(code));
      values.push_back(std::isfinite(value) ? static_cast<double>(value) : 1.0);
    }
    return values;
  }
  /// Powers of two, which E8M0 has as well, so that all sums of small matrices are exact.
  static std::vector<double> powers(Scaling scaling, const Shape& shape, std::int64_t scales) {
    const std::int64_t n =
        scaling == Scaling::tensor ? scales : tensor::scale_shape(scaling, shape[0], shape[1]).count();
    std::vector<double> values;
    for (std::int64_t i = 0; i < n; ++i) values.push_back(std::exp2(i % 5 - 2));
    return values;
  }
};

double scaled_total(const Exec& exec, const Operand& x, std::int64_t rows_of_scale = 0, std::int64_t first_row = 0) {
  const ExactTotal total;
  kernels::sum_of_scaled_squares(exec, total, x, rows_of_scale, first_row);
  return total.get();
}

double squares_of(const Buffer& decoded) {
  double sum = 0;
  for (const double v : decoded.get()) sum += v * v;
  return sum;
}

TEST(SumOfScaledSquares, IsThatOfTheDecodedMatrix) {
  const std::vector<Shape> blocks{{128, 128}, {256, 1152}, {128, 2048}},
      any{{1, 1}, {3, 77}, {9, 129}, {33, 32}, {5, 1025}, {2, 4096}, {70, 16}};
  for (const Scaling scaling :
       {Scaling::tensor, Scaling::row_128, Scaling::column_128, Scaling::tile_128, Scaling::row_32, Scaling::column_32})
    for (const DType dtype : {DType::e4m3, DType::e5m2})
      for (const auto& shape : scaling == Scaling::tensor ? any : blocks) {
        SCOPED_TRACE(std::string(tensor::name_of(scaling)) + " " + to_string(shape));
        const ScaledMatrix x(shape, dtype, scaling);
        const Buffer decoded(shape, DType::fp32);
        kernels::dequantize(Exec(), decoded, x.operand);
        const double want = squares_of(decoded), first = scaled_total(Exec(), x.operand);
        EXPECT_NEAR(first, want, 1e-6 * want);
        for (const auto& exec : exec_widths()) EXPECT_EQ(scaled_total(exec, x.operand), first);
        const std::int64_t half = shape[0] / 2 / tensor::block_rows(scaling) * tensor::block_rows(scaling);
        if (half == 0) continue;
        const ExactTotal cut;
        kernels::sum_of_scaled_squares(Exec(), cut, x.operand.slice(half, shape[0] - half));
        kernels::sum_of_scaled_squares(Exec(), cut, x.operand.slice(0, half));
        EXPECT_EQ(cut.get(), first) << "in two pieces";
      }
}

// A part of experts' weights: each matrix has its scale, and padding behind the last one has the last scale.
TEST(SumOfScaledSquares, OfPartsOfSeveralMatrices) {
  constexpr std::int64_t kRows = 6, kCols = 48, kMatrices = 4;
  const ScaledMatrix x({kRows * kMatrices, kCols}, DType::e4m3, Scaling::tensor, kMatrices);
  const auto scales = x.scale_inv.get();
  for (const std::int64_t first : {0, 5, 6, 17}) {
    double want = 0;
    for (std::int64_t matrix = 0; matrix < kMatrices; ++matrix)
      for (std::int64_t row = std::max(matrix * kRows, first); row < (matrix + 1) * kRows; ++row) {
        const Buffer one({1, kCols}, DType::fp32);
        const Buffer scale({1}, DType::fp32, scales[static_cast<std::size_t>(matrix)]);
        const Tensor all = x.data;
        kernels::dequantize(Exec(), one, Operand(all.slice(row, 1), scale, Scaling::tensor));
        want += squares_of(one);
      }
    const Operand part(x.operand.data.slice(first, kRows * kMatrices - first), x.scale_inv, Scaling::tensor);
    EXPECT_NEAR(scaled_total(Exec(), part, kRows, first), want, 1e-6 * want) << first;
  }
  const Operand padded(x.operand.data.slice(0, 2), x.scale_inv, Scaling::tensor);
  EXPECT_EQ(scaled_total(Exec(), padded, kRows, kRows * kMatrices + 1),
            scaled_total(Exec(), padded, kRows, kRows * (kMatrices - 1)));
}

TEST(SquaresErrors, NameWhatIsWrong) {
  const Buffer x({4, 4}, DType::fp32), few({4}, DType::u8), parts({32}, DType::u8);
  const ExactTotal total;
  EXPECT_THROW(kernels::sum_of_squares(Exec(), few, x), base::Error);
  EXPECT_THROW(kernels::square_parts(Exec(), few, x), base::Error);
  EXPECT_THROW(kernels::add_square_parts(Exec(), total, few), base::Error);
  EXPECT_THROW(kernels::add_square_parts(Exec(), few, parts), base::Error);
  EXPECT_THROW(kernels::sum_of_scaled_squares(Exec(), total, Operand(x)), base::Error);
  const ScaledMatrix scaled({4, 4}, DType::e4m3, Scaling::tensor), several({4, 4}, DType::e4m3, Scaling::tensor, 2);
  EXPECT_THROW(kernels::sum_of_scaled_squares(Exec(), few, scaled.operand), base::Error);
  EXPECT_THROW(kernels::sum_of_scaled_squares(Exec(), total, several.operand), base::Error);
  Operand turned = scaled.operand;
  turned.transposed = true;
  EXPECT_THROW(kernels::sum_of_scaled_squares(Exec(), total, turned), base::Error);
}

}  // namespace
}  // namespace shard8::tests
