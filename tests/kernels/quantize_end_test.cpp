// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

// Casts of the first rows of a matrix (CastOptions::end) against casts of a matrix that has these rows alone. The other
// rows are NaN, and the memory of their casts must stay as it was.

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.hpp"
#include "kernels/quantize.hpp"
#include "tests/kernels/quantize_cases.hpp"
#include "tests/support/compare.hpp"

namespace shard8::tests {
namespace {

using tensor::Operand;
using tensor::Scaling;

constexpr std::uint8_t kPoison = 0xff;  ///< of floats: NaN

void poison(const Tensor& t) { store(t, std::vector<std::uint8_t>(t.bytes(), kPoison)); }

/// A cast of a matrix, stored as (R, C) or as (C, R).
struct Cast {
  Buffer data, scale_inv, transposed;
  Scaling scaling;

  Cast(Scaling how, std::int64_t rows, std::int64_t cols, DType format)
      : data({rows, cols}, format),
        scale_inv(tensor::scale_shape(how, rows, cols), tensor::scale_dtype(how)),
        transposed({cols, rows}, format),
        scaling(how) {
    for (const Tensor& t : {data.tensor(), scale_inv.tensor(), transposed.tensor()}) poison(t);
  }
  operator Operand() const { return {data, scale_inv, scaling}; }  // NOLINT: passed to kernels as it is
  Operand stored_transposed() const {
    Operand matrix{transposed, scale_inv, scaling};
    matrix.transposed = true;
    return matrix;
  }
};

/// A matrix whose rows from `end` on are NaN, and what a cast of it counts.
struct Limited {
  std::int64_t rows, cols, end;
  Buffer x, on_device;
  kernels::CastOptions options, sliced_options;
  Counts counts, sliced_counts;
  Buffer amax{{1}, DType::i32}, sliced_amax{{1}, DType::i32};

  Limited(const QuantizeInput& input, std::int64_t first_rows)
      : rows(input.x.shape()[0]),
        cols(input.x.shape()[1]),
        end(first_rows),
        x(input.x.shape(), input.x.dtype()),
        on_device({1}, DType::i32, static_cast<double>(first_rows)) {
    auto bytes = raw(input.x);
    std::fill(bytes.begin() + end * cols * static_cast<std::int64_t>(size_of(input.x.dtype())), bytes.end(), kPoison);
    store(x, bytes);
    options.through_bf16 = sliced_options.through_bf16 = input.through_bf16;
    options.counts = counts;
    sliced_options.counts = sliced_counts;
    options.end = on_device;
  }
  Tensor slice() const { return x.tensor().slice(0, end); }

  /// Expects that `got` begins with the bytes of `want`, and that no byte behind them was written.
  static void expect_begins(const Buffer& got, const Buffer& want, const char* name) {
    const auto begin = raw(want), all = raw(got);
    std::vector<std::uint8_t> bytes(all.size(), kPoison);
    std::copy(begin.begin(), begin.end(), bytes.begin());
    EXPECT_TRUE(same_bits(all, bytes)) << name;
  }
  void expect_transposed(const Buffer& got, const Buffer& want) const {
    const auto all = raw(got);
    std::vector<std::uint8_t> begins;
    for (std::int64_t c = 0; c < cols; ++c) std::copy_n(all.begin() + c * rows, end, std::back_inserter(begins));
    EXPECT_TRUE(same_bits(begins, raw(want))) << "transposed";
  }
  void expect_counts(std::int64_t casts) const {
    const auto got = counts.get(), want = sliced_counts.get();
    EXPECT_EQ(got.saturated, want.saturated);
    EXPECT_EQ(got.flushed, want.flushed);
    EXPECT_EQ(got.scale_change, want.scale_change);
    EXPECT_EQ(got.elements, static_cast<std::uint64_t>(casts * end * cols));
    EXPECT_EQ(want.elements, 0u);
  }
};

/// Calls f(Limited) for matrices with every kind of numbers, whose ends are multiples of `multiple`, 0 and R included.
template <class F>
void for_ends(const std::vector<Shape>& shapes, std::int64_t multiple, const F& f) {
  std::mt19937_64 engine(9);
  for (const Shape& shape : shapes) {
    const std::int64_t multiples = shape[0] / multiple;
    for (const auto& input : quantize_inputs(shape)) {
      const auto random = static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(multiples));
      for (const std::int64_t end : {std::int64_t{0}, multiple, random * multiple, shape[0]}) {
        SCOPED_TRACE(to_string(shape) + " " + input.name + ", end " + std::to_string(end));
        f(Limited(input, end));
        if (::testing::Test::HasFailure()) return;
      }
    }
  }
}

class QuantizeEnd : public ::testing::Test {
 protected:
  void check_blocks(Scaling scaling, const std::vector<Shape>& shapes, DType format = DType::e4m3) const {
    for_ends(shapes, std::max<std::int64_t>(tensor::block_rows(scaling), 16), [&](const Limited& m) {
      const Cast got(scaling, m.rows, m.cols, format), want(scaling, m.end, m.cols, format);
      kernels::quantize_blocks(exec_, got, m.x, m.options);
      kernels::quantize_blocks(exec_, want, m.slice(), m.sliced_options);
      Limited::expect_begins(got.data, want.data, "data");
      Limited::expect_begins(got.scale_inv, want.scale_inv, "scale_inv");
      m.expect_counts(1);
    });
  }
  /// Blocks along rows and along columns in one pass, the columnwise cast stored transposed or not.
  void check_both(Scaling row, Scaling column, bool transposed, const std::vector<Shape>& shapes, DType format) const {
    for_ends(shapes, tensor::block_rows(column), [&](const Limited& m) {
      const Cast by_row(row, m.rows, m.cols, format), by_column(column, m.rows, m.cols, format),
          want_row(row, m.end, m.cols, format), want_column(column, m.end, m.cols, format);
      const auto cast = [&](const Cast& to_row, const Cast& to_column, const Tensor& x, const auto& options) {
        const Operand columns = transposed ? to_column.stored_transposed() : Operand(to_column);
        kernels::quantize_blocks(exec_, to_row, columns, x, options);
      };
      cast(by_row, by_column, m.x, m.options);
      cast(want_row, want_column, m.slice(), m.sliced_options);
      Limited::expect_begins(by_row.data, want_row.data, "rowwise data");
      Limited::expect_begins(by_row.scale_inv, want_row.scale_inv, "rowwise scale_inv");
      if (transposed)
        m.expect_transposed(by_column.transposed, want_column.transposed);
      else
        Limited::expect_begins(by_column.data, want_column.data, "columnwise data");
      Limited::expect_begins(by_column.scale_inv, want_column.scale_inv, "columnwise scale_inv");
      m.expect_counts(2);
    });
  }
  Exec exec_;
};

/// Several stretches, rows that are whole packs or not.
const std::vector<Shape> kShapes{{48, 208}, {144, 264}, {96, 37}, {512, 136}};

TEST_F(QuantizeEnd, Amax) {
  for_ends(kShapes, 16, [&](const Limited& m) {
    kernels::amax(exec_, m.amax, m.x, m.options);
    kernels::amax(exec_, m.sliced_amax, m.slice(), m.sliced_options);
    EXPECT_EQ(raw(m.amax), raw(m.sliced_amax));
    EXPECT_EQ(m.counts.get().elements, 0u);
  });
}

TEST_F(QuantizeEnd, OneScale) {
  const Buffer scale({1}, DType::fp32, 33.3);
  for (const DType format : {DType::e4m3, DType::e5m2}) {
    for_ends(kShapes, 16, [&](const Limited& m) {
      const Cast got(Scaling::tensor, m.rows, m.cols, format), want(Scaling::tensor, m.end, m.cols, format);
      kernels::quantize(exec_, got, m.amax, m.x, scale, m.options);
      kernels::quantize(exec_, want, m.sliced_amax, m.slice(), scale, m.sliced_options);
      Limited::expect_begins(got.data, want.data, "data");
      EXPECT_EQ(raw(got.scale_inv), raw(want.scale_inv));
      EXPECT_EQ(raw(m.amax), raw(m.sliced_amax));
      m.expect_counts(1);
    });
  }
}

TEST_F(QuantizeEnd, OneScaleAndTransposed) {
  const Buffer scale({1}, DType::fp32, 33.3);
  for (const DType format : {DType::e4m3, DType::e5m2}) {
    for (const bool alone : {false, true}) {
      for_ends(kShapes, 16, [&](Limited m) {
        const Cast got(Scaling::tensor, m.rows, m.cols, format), want(Scaling::tensor, m.end, m.cols, format);
        m.options.transposed_alone = m.sliced_options.transposed_alone = alone;
        kernels::quantize_transpose(exec_, got, got.transposed, m.amax, m.x, scale, m.options);
        kernels::quantize_transpose(exec_, want, want.transposed, m.sliced_amax, m.slice(), scale, m.sliced_options);
        if (!alone) Limited::expect_begins(got.data, want.data, "data");
        m.expect_transposed(got.transposed, want.transposed);
        EXPECT_EQ(raw(got.scale_inv), raw(want.scale_inv));
        EXPECT_EQ(raw(m.amax), raw(m.sliced_amax));
        m.expect_counts(1);
      });
    }
  }
}

TEST_F(QuantizeEnd, BlocksOf128) {
  check_blocks(Scaling::row_128, {{48, 384}, {144, 128}});
  check_blocks(Scaling::column_128, {{256, 37}, {384, 136}});
  check_blocks(Scaling::tile_128, {{384, 256}});
  check_blocks(Scaling::row_128, {{144, 128}}, DType::e5m2);
  check_blocks(Scaling::column_128, {{384, 136}}, DType::e5m2);
}

TEST_F(QuantizeEnd, BlocksOf32) {
  check_blocks(Scaling::row_32, {{48, 96}, {160, 160}});
  check_blocks(Scaling::column_32, {{96, 37}, {288, 144}});
}

TEST_F(QuantizeEnd, BothDirections) {
  check_both(Scaling::row_32, Scaling::column_32, false, {{160, 160}, {96, 32}}, DType::e4m3);
  for (const DType format : {DType::e4m3, DType::e5m2})
    for (const bool transposed : {false, true})
      check_both(Scaling::row_128, Scaling::column_128, transposed, {{384, 256}}, format);
}

TEST_F(QuantizeEnd, ColumnsStoredTransposed) {
  for (const DType format : {DType::e4m3, DType::e5m2}) {
    for_ends({{256, 37}, {384, 136}}, 128, [&](const Limited& m) {
      const Cast got(Scaling::column_128, m.rows, m.cols, format), want(Scaling::column_128, m.end, m.cols, format);
      kernels::quantize_blocks(exec_, got.stored_transposed(), m.x, m.options);
      kernels::quantize_blocks(exec_, want.stored_transposed(), m.slice(), m.sliced_options);
      m.expect_transposed(got.transposed, want.transposed);
      Limited::expect_begins(got.scale_inv, want.scale_inv, "scale_inv");
      m.expect_counts(1);
    });
  }
}

TEST_F(QuantizeEnd, MustBeOneNumber) {
  const Buffer x({32, 32}, DType::bf16), two({2}, DType::i32), scale({1}, DType::fp32, 1), amax({1}, DType::i32);
  const Cast one(Scaling::tensor, 32, 32, DType::e4m3), narrow(Scaling::row_32, 32, 32, DType::e4m3);
  kernels::CastOptions options;
  options.end = two;
  EXPECT_THROW(kernels::amax(exec_, amax, x, options), base::Error);
  EXPECT_THROW(kernels::quantize(exec_, one, amax, x, scale, options), base::Error);
  EXPECT_THROW(kernels::quantize_transpose(exec_, one, one.transposed, amax, x, scale, options), base::Error);
  EXPECT_THROW(kernels::quantize_blocks(exec_, narrow, x, options), base::Error);
}

}  // namespace
}  // namespace shard8::tests
