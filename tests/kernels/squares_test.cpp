// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/adamw.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.hpp"
#include "tests/kernels/buffer.hpp"

namespace shard8::tests {
namespace {

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

TEST(SquaresErrors, NameWhatIsWrong) {
  const Buffer x({4, 4}, DType::fp32), few({4}, DType::u8), parts({32}, DType::u8);
  const ExactTotal total;
  EXPECT_THROW(kernels::sum_of_squares(Exec(), few, x), base::Error);
  EXPECT_THROW(kernels::square_parts(Exec(), few, x), base::Error);
  EXPECT_THROW(kernels::add_square_parts(Exec(), total, few), base::Error);
  EXPECT_THROW(kernels::add_square_parts(Exec(), few, parts), base::Error);
}

}  // namespace
}  // namespace shard8::tests
