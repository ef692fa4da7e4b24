// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>

#include "tests/kernels/gemm_fp8.hpp"
#include "tests/support/compare.hpp"

namespace shard8::tests {
namespace {

using Doubles = std::vector<double>;
using Ints = std::vector<std::int32_t>;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }
std::int64_t whole(std::int64_t n, std::int64_t block) { return (n + block - 1) / block * block; }

/// Formats of the operands.
struct Form {
  const char* name;
  DType input, weight, gradient, out;
  Family scales;
  bool transposed = false;  ///< wgrad's operands lie transposed
  bool waits = false;  ///< on devices no kernel reads the sizes of groups, and a library multiplies whole multiples
  bool float8() const { return scales.row != Scaling::none; }
  /// What groups begin at multiples of.
  std::int64_t multiple() const { return float8() ? std::max(kernels::kGroupedRowsMultiple, scales.width) : 1; }
  friend std::ostream& operator<<(std::ostream& out, const Form& f) { return out << f.name; }
};

constexpr Family kPlain{"plain", 1, Scaling::none, Scaling::none, Scaling::none, Scaling::none};

std::vector<Form> forms() {
  constexpr DType fp32 = DType::fp32, bf16 = DType::bf16, e4m3 = DType::e4m3, e5m2 = DType::e5m2;
  std::vector<Form> all{
      {"fp32", fp32, fp32, fp32, fp32, kPlain},
      {"bf16", bf16, bf16, bf16, bf16, kPlain},
      {"bf16_to_fp32", bf16, bf16, bf16, fp32, kPlain},
  };
  constexpr const char* kNames[][4] = {
      {"tensor", "tensor_e5m2", "tensor_transposed", "tensor_e5m2_inputs"},
      {"blocks_128", "blocks_128_e5m2", "blocks_128_transposed", "blocks_128_e5m2_inputs"},
      {"blocks_32", "blocks_32_e5m2", "", ""}};
  for (std::size_t i = 0; i < std::size(kFamilies); ++i) {
    all.push_back({kNames[i][0], e4m3, e4m3, e4m3, bf16, kFamilies[i]});
    all.push_back({kNames[i][1], e4m3, e4m3, e5m2, bf16, kFamilies[i]});
    // Hosts read operands as they are, and so do decoded blocks of 32.
    if (!tensor::kDevice || kFamilies[i].row == Scaling::row_32) continue;
    all.push_back({kNames[i][2], e4m3, e4m3, e5m2, bf16, kFamilies[i], true});
    // Inputs for which the host waits.
    all.push_back({kNames[i][3], e5m2, e4m3, e4m3, bf16, kFamilies[i], true, true});
  }
  return all;
}

/// Where groups lie in `total` rows.
struct Layout {
  Ints first, rows;
  std::int64_t total = 0;

  /// Groups of the given sizes, which begin at multiples of `multiple`, and rows behind the last one.
  Layout(const Ints& sizes, std::int64_t multiple) : rows(sizes) {
    for (const auto n : sizes) {
      first.push_back(static_cast<std::int32_t>(total));
      total = whole(total + n, multiple);
    }
    total = whole(total + 1, std::max<std::int64_t>(multiple, 1)) + 2 * multiple;
  }

  std::int64_t groups() const { return static_cast<std::int64_t>(rows.size()); }
  Buffer buffer(const Ints& values) const { return {{groups()}, DType::i32, Doubles(values.begin(), values.end())}; }
  /// For each row its group; −1 behind a group up to the next multiple; −2 elsewhere.
  Ints owners(std::int64_t multiple) const {
    Ints owners(at(total), -2);
    for (std::int64_t g = 0; g < groups(); ++g) {
      const auto begin = owners.begin() + first[at(g)];
      const std::int64_t n = rows[at(g)];
      std::fill(begin, begin + whole(n, multiple), -1);
      std::fill(begin, begin + n, static_cast<std::int32_t>(g));
    }
    return owners;
  }
};

/// Sizes of groups: none, all, some empty; the first and the last group empty; more rows than a tile has.
std::vector<Ints> sizes_of_groups() {
  std::vector<Ints> all{{1}, {0}, {301}, {5, 0, 3}, {0, 17, 0}, {0, 0, 131}, {33, 0, 0}, {259, 1, 140}};
  std::mt19937 engine(5);
  std::uniform_int_distribution<std::int32_t> draw(0, 40);
  for (const std::size_t groups : {64u, 128u}) {
    Ints some;
    for (std::size_t g = 0; g < groups; ++g) some.push_back(std::max(0, draw(engine) - 10));
    some.front() = some.back() = 0;
    all.push_back(some);
  }
  return all;
}

struct Widths {
  std::int64_t outputs, inputs;
};
std::vector<Widths> widths_of(const Form& f) {
  if (f.scales.width == 128) return {{128, 256}};
  if (f.float8()) return {{64, 96}, {288, 32}};
  // No library of a device multiplies matrices of bf16 with odd widths.
  return {{48, 40}, tensor::kDevice && f.input == DType::bf16 ? Widths{6, 10} : Widths{5, 7}, {264, 136}};
}

/// A matrix of FP8 with scales, or without.
class Matrix {
 public:
  /// `each` matrices of `shape`, one below the other. Every one of them has a scale of its own if there is one for the
  /// whole tensor.
  Matrix(std::int64_t each, const Shape& shape, DType dtype, Scaling scaling, unsigned seed)
      : rows_(each * shape[0]),
        cols_(shape[1]),
        each_(each),
        scaling_(scaling),
        data_(Buffer::normal({rows_, cols_}, dtype, seed, scaling == Scaling::none ? 1 : 30)),
        scale_inv_(scaling == Scaling::tensor ? Shape{each} : tensor::scale_shape(scaling, rows_, cols_),
                   tensor::scale_dtype(scaling)) {
    std::mt19937_64 engine(seed + 1000);
    std::uniform_real_distribution<double> draw(-6, -4);
    Doubles scales(scale_inv_.get().size());
    for (auto& s : scales) s = std::exp2(draw(engine));
    scale_inv_.set(scales);
  }

  /// Sets rows to zeros behind groups, up to the next multiple, and to NaN where no product may read.
  void poison(const Ints& owners) {
    auto values = data_.get();
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto owner = owners[i / at(cols_)];
      if (owner < 0) values[i] = owner == -1 ? 0.0 : kNan;
    }
    data_.set(values);
  }

  Operand operand() const {
    if (scaling_ == Scaling::none) return data_;
    return {data_, scale_inv_, scaling_};
  }
  /// The matrix in `memory`, where it lies transposed.
  Operand transposed(Buffer& memory) const {
    const auto values = data_.get();
    Doubles turned(values.size());
    for (std::int64_t r = 0; r < rows_; ++r)
      for (std::int64_t c = 0; c < cols_; ++c) turned[at(c * rows_ + r)] = values[at(r * cols_ + c)];
    memory = Buffer({cols_, rows_}, data_.dtype(), turned);
    Operand m = operand();
    m.data = memory;
    m.transposed = true;
    return m;
  }

  /// The values: element · scale, exactly.
  Doubles values() const {
    auto values = data_.get();
    if (scaling_ == Scaling::none) return values;
    const auto scales = scale_inv_.get();
    const std::int64_t height = tensor::block_rows(scaling_), width = tensor::block_cols(scaling_);
    for (std::int64_t r = 0; r < rows_; ++r) {
      for (std::int64_t c = 0; c < cols_; ++c) {
        const std::int64_t block =
            scaling_ == Scaling::tensor ? r / (rows_ / each_) : r / height * (cols_ / width) + c / width;
        values[at(r * cols_ + c)] *= scales[at(block)];
      }
    }
    return values;
  }

 private:
  std::int64_t rows_, cols_, each_;
  Scaling scaling_;
  Buffer data_, scale_inv_;
};

class GroupedGemm : public ::testing::TestWithParam<Form> {
 protected:
  Exec exec_;
  Form f_ = GetParam();
  kernels::Libraries libraries_;

  /// Tries all sizes.
  template <class Try>
  void for_all(const Try& attempt) {
    for (auto sizes : sizes_of_groups()) {
      if (f_.waits)
        for (auto& n : sizes) n = static_cast<std::int32_t>(whole(n, f_.multiple()));
      for (const auto& widths : widths_of(f_)) {
        // Many groups are tried with small weights.
        if (widths.outputs * widths.inputs > (sizes.size() > 64 ? 8192 : sizes.size() > 8 ? 32768 : 1 << 20)) continue;
        const Layout layout(sizes, f_.multiple());
        SCOPED_TRACE(::testing::Message()
                     << sizes.size() << " groups, the first of " << sizes[0] << ", " << layout.total
                     << " rows, weights " << widths.outputs << " by " << widths.inputs);
        const Buffer first = layout.buffer(layout.first), rows = layout.buffer(layout.rows);
        const Buffer work = Buffer::bytes(kernels::grouped_gemm_workspace_bytes(
            f_.input, layout.groups(), layout.total, widths.inputs, widths.outputs, f_.scales.row, f_.transposed));
        kernels::Workspace workspace(work, &libraries_);
        workspace.spared = layout.groups() % 2 == 0 ? 8 : 0;
        attempt(layout, widths, kernels::RowGroups{first, rows}, workspace);
      }
    }
  }

  /// Rounding of the output, and of sums of `n` products of numbers of size 1, as in the tests of single products. On
  /// devices FP8 products keep 13 bits of partial sums: of all products if `fast`, else of 128. Blocks of 32 are
  /// decoded to bf16 without an error.
  Tolerance tolerance(std::int64_t n, DType out, bool fast) const {
    const bool fewer_bits = tensor::kDevice && f_.float8() && f_.scales.width != 32;
    const double each = fewer_bits ? (fast ? 5e-4 : 2e-4) : 5e-7;
    const double at_least = fewer_bits ? 2e-2 : 1e-6;
    return {rounding(out) + 6e-7, each * static_cast<double>(n) + at_least};
  }

  /// Compares the rows that belong to groups.
  static void expect_rows(const Buffer& got, const Doubles& want, const Ints& owners, const Tolerance& tolerance) {
    const auto values = got.get();
    const std::int64_t cols = got.shape()[1];
    Doubles a, b;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (owners[i / at(cols)] < 0) continue;
      a.push_back(values[i]);
      b.push_back(want[i]);
    }
    EXPECT_TRUE(all_close(a, b, tolerance));
  }
};

TEST_P(GroupedGemm, FpropEqualsDoublePrecision) {
  if (f_.waits && f_.scales.row == Scaling::tensor) GTEST_SKIP() << "cuBLASLt does not multiply e5m2 by weights";
  for_all([&](const Layout& layout, const Widths& s, const kernels::RowGroups& groups, const kernels::Workspace& work) {
    const auto owners = layout.owners(f_.multiple());
    Matrix x(1, {layout.total, s.inputs}, f_.input, f_.scales.row, 1);
    x.poison(owners);
    const Matrix w(layout.groups(), {s.outputs, s.inputs}, f_.weight, f_.scales.weight_row, 2);
    const Buffer y({layout.total, s.outputs}, f_.out, 99);
    kernels::grouped_gemm_fprop(exec_, y, x.operand(), w.operand(), groups, work);
    const auto in = x.values(), weights = w.values();
    Doubles want(at(layout.total * s.outputs));
    for (std::int64_t r = 0; r < layout.total; ++r) {
      const std::int64_t g = owners[at(r)];
      for (std::int64_t n = 0; g >= 0 && n < s.outputs; ++n) {
        double& sum = want[at(r * s.outputs + n)];
        for (std::int64_t k = 0; k < s.inputs; ++k)
          sum += in[at(r * s.inputs + k)] * weights[at((g * s.outputs + n) * s.inputs + k)];
      }
    }
    expect_rows(y, want, owners, tolerance(s.inputs, f_.out, true));
  });
}

TEST_P(GroupedGemm, DgradEqualsDoublePrecision) {
  for_all([&](const Layout& layout, const Widths& s, const kernels::RowGroups& groups, const kernels::Workspace& work) {
    const auto owners = layout.owners(f_.multiple());
    Matrix dy(1, {layout.total, s.outputs}, f_.gradient, f_.scales.row, 1);
    dy.poison(owners);
    const Matrix w(layout.groups(), {s.outputs, s.inputs}, f_.weight, f_.scales.weight_column, 2);
    const Buffer dx({layout.total, s.inputs}, f_.out, 99);
    kernels::grouped_gemm_dgrad(exec_, dx, dy.operand(), w.operand(), groups, work);
    const auto in = dy.values(), weights = w.values();
    Doubles want(at(layout.total * s.inputs));
    for (std::int64_t r = 0; r < layout.total; ++r) {
      const std::int64_t g = owners[at(r)];
      for (std::int64_t n = 0; g >= 0 && n < s.outputs; ++n) {
        for (std::int64_t k = 0; k < s.inputs; ++k)
          want[at(r * s.inputs + k)] += in[at(r * s.outputs + n)] * weights[at((g * s.outputs + n) * s.inputs + k)];
      }
    }
    expect_rows(dx, want, owners, tolerance(s.outputs, f_.out, false));
  });
}

TEST_P(GroupedGemm, WgradEqualsDoublePrecision) {
  for_all([&](const Layout& layout, const Widths& s, const kernels::RowGroups& groups, const kernels::Workspace& work) {
    const auto owners = layout.owners(f_.multiple());
    Matrix dy(1, {layout.total, s.outputs}, f_.gradient, f_.scales.column, 1);
    Matrix x(1, {layout.total, s.inputs}, f_.input, f_.scales.column, 2);
    dy.poison(owners);
    x.poison(owners);
    Buffer dy_turned({1}, f_.gradient), x_turned({1}, f_.input);
    const Operand left = f_.transposed ? dy.transposed(dy_turned) : dy.operand();
    const Operand right = f_.transposed ? x.transposed(x_turned) : x.operand();
    const auto gradients = dy.values(), in = x.values();
    Doubles want(at(layout.groups() * s.outputs * s.inputs));
    for (std::int64_t r = 0; r < layout.total; ++r) {
      const std::int64_t g = owners[at(r)];
      for (std::int64_t n = 0; g >= 0 && n < s.outputs; ++n) {
        for (std::int64_t k = 0; k < s.inputs; ++k)
          want[at((g * s.outputs + n) * s.inputs + k)] += gradients[at(r * s.outputs + n)] * in[at(r * s.inputs + k)];
      }
    }
    const Shape shape{layout.groups() * s.outputs, s.inputs};
    const auto most = *std::max_element(layout.rows.begin(), layout.rows.end());
    const Buffer dw(shape, DType::fp32, kNan), sum = Buffer::normal(shape, DType::fp32, 3);
    const auto before = sum.get();
    kernels::grouped_gemm_wgrad(exec_, dw, left, right, groups, false, work);
    EXPECT_TRUE(all_close(dw.get(), want, tolerance(most, DType::fp32, false)));
    kernels::grouped_gemm_wgrad(exec_, sum, left, right, groups, true, work);
    for (std::size_t i = 0; i < want.size(); ++i) want[i] += before[i];
    EXPECT_TRUE(all_close(sum.get(), want, tolerance(most, DType::fp32, false))) << "accumulated";
    const auto after = sum.get(), alone = dw.get();
    for (std::size_t i = 0; i < after.size(); ++i) {
      if (layout.rows[i / at(s.outputs * s.inputs)] > 0) continue;
      ASSERT_EQ(after[i], before[i]) << "an empty group adds something at " << i;
      ASSERT_EQ(alone[i], 0.0) << "an empty group has a gradient at " << i;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(, GroupedGemm, ::testing::ValuesIn(forms()),
                         [](const auto& instance) { return std::string(instance.param.name); });

TEST(GroupedGemmWaits, ForTheSizes) {
  EXPECT_TRUE(kernels::grouped_gemm_waits(DType::fp32, Scaling::none, DType::fp32, 64, 64));
  EXPECT_TRUE(kernels::grouped_gemm_waits(DType::bf16, Scaling::none, DType::fp32, 64, 64));
  EXPECT_TRUE(kernels::grouped_gemm_waits(DType::e4m3, Scaling::row_32, DType::bf16, 64, 64));
  EXPECT_TRUE(kernels::grouped_gemm_waits(DType::bf16, Scaling::none, DType::bf16, 64, 60)) << "120 bytes";
}

}  // namespace
}  // namespace shard8::tests
