// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "kernels/gemm.hpp"
#include "tests/kernels/gemm_fp8.hpp"

namespace shard8::tests {
namespace {

using kernels::RowGroups;

/// The message that the action throws, without the requirement in source code; empty if it throws nothing.
std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const base::Error& e) {
    const std::string text = e.what();
    return text.substr(0, text.find(" (requirement "));
  }
  return "";
}

Buffer ints(const std::vector<double>& values) {
  return {{static_cast<std::int64_t>(values.size())}, DType::i32, values};
}

/// Two groups in 256 rows, weights of 128 by 128.
class GroupedGemmErrors : public ::testing::Test {
 protected:
  static constexpr std::int64_t kRows = 256, kSize = 128, kGroups = 2;
  Exec exec_;
  kernels::Libraries libraries_;
  Buffer memory_ = Buffer::bytes(kernels::grouped_gemm_workspace_bytes(DType::e4m3, kGroups, kRows, kSize, kSize));
  kernels::Workspace work_{memory_, &libraries_};
  Buffer first_ = ints({0, 128}), rows_ = ints({100, 128});
  RowGroups groups_{first_, rows_};
  Buffer x_{{kRows, kSize}, DType::fp32}, y_{{kRows, kSize}, DType::fp32}, w_{{kGroups * kSize, kSize}, DType::fp32};
  Buffer half_{{kRows, kSize}, DType::bf16};
  Buffer scales_{{kGroups}, DType::fp32, 1};

  std::string fprop(const Operand& x, const Operand& w, const RowGroups& groups) {
    return error_of([&] { kernels::grouped_gemm_fprop(exec_, y_, x, w, groups, work_); });
  }
  std::string dgrad(const Operand& dy, const Operand& w, const RowGroups& groups) {
    return error_of([&] { kernels::grouped_gemm_dgrad(exec_, y_, dy, w, groups, work_); });
  }
  std::string wgrad(const Tensor& dw, const Operand& dy, const Operand& x, const RowGroups& groups) {
    return error_of([&] { kernels::grouped_gemm_wgrad(exec_, dw, dy, x, groups, false, work_); });
  }
};

TEST_F(GroupedGemmErrors, OfGroups) {
  EXPECT_EQ(fprop(x_, w_, groups_), "");
  const Buffer real({kGroups}, DType::fp32), three = ints({0, 1, 2}), none({0}, DType::i32);
  EXPECT_EQ(fprop(x_, w_, {real, rows_}),
            "grouped_gemm_fprop: first of the groups is fp32 (2); it must be i32, one for each of at least one group");
  EXPECT_EQ(dgrad(x_, w_, {three, rows_}),
            "grouped_gemm_dgrad: first of the groups is i32 (3); it must be i32, one for each of at least one group");
  EXPECT_EQ(wgrad(w_, x_, x_, {first_, real}),
            "grouped_gemm_wgrad: rows of the groups is fp32 (2); it must be i32, one for each of at least one group");
  EXPECT_EQ(fprop(x_, w_, {none, none}),
            "grouped_gemm_fprop: first of the groups is i32 (0); it must be i32, one for each of at least one group");
  EXPECT_EQ(fprop(x_, w_, {three, three}),
            "grouped_gemm_fprop: a weight of 256 rows is not 3 matrices, one for each group");
  EXPECT_EQ(wgrad(w_, x_, x_, {three, three}),
            "grouped_gemm_wgrad: a weight of 256 rows is not 3 matrices, one for each group");
}

TEST_F(GroupedGemmErrors, OfSizesThatTheHostReads) {
  const Buffer low = ints({0, 99}), much = ints({100, 129}), negative = ints({100, -1});
  EXPECT_EQ(
      fprop(x_, w_, {low, rows_}),
      "grouped_gemm_fprop: group 1 has 128 rows from row 99; it must lie behind the groups before it, which end at "
      "row 100");
  EXPECT_EQ(dgrad(x_, w_, {first_, much}), "grouped_gemm_dgrad: groups end at row 257 of 256");
  EXPECT_EQ(
      wgrad(w_, x_, x_, {first_, negative}),
      "grouped_gemm_wgrad: group 1 has -1 rows from row 128; it must lie behind the groups before it, which end at "
      "row 100");
  const Quantized x({kRows, kSize}, DType::e4m3, Scaling::row_32, 1);
  const Quantized w({kGroups * kSize, kSize}, DType::e4m3, Scaling::row_32, 2);
  const Buffer odd = ints({0, 120}), half = ints({0, 112}), few = ints({100, 64});
  EXPECT_EQ(fprop(x, w, {first_, few}), "");
  EXPECT_EQ(
      fprop(x, w, {odd, few}),
      "grouped_gemm_fprop: group 1 begins at row 120; with x of e4m3 and scaling 1x32 groups begin at multiples of "
      "16");
  const Quantized columns({kRows, kSize}, DType::e4m3, Scaling::column_32, 1);
  EXPECT_EQ(
      wgrad(w_, columns, columns, {half, few}),
      "grouped_gemm_wgrad: group 1 begins at row 112; with dy of e4m3 and scaling 32x1 groups begin at multiples of "
      "32");
}

TEST_F(GroupedGemmErrors, OfOperands) {
  const Quantized x({kRows, kSize}, DType::e4m3, Scaling::tensor, 1);
  const Quantized w({kGroups * kSize, kSize}, DType::e4m3, Scaling::tensor, 2);
  EXPECT_EQ(fprop(x, w, groups_),
            "grouped_gemm_fprop: w of 2 groups has scales (1) of fp32; needed is one fp32 for each group");
  const Operand each(w.operand().data, scales_, Scaling::tensor);
  if constexpr (!tensor::kDevice) {
    EXPECT_EQ(fprop(x, each, groups_), "");  // cuBLASLt gives no fp32 of such matrices
  }
  EXPECT_EQ(fprop(half_, w_, groups_),
            "grouped_gemm_fprop: x is bf16 and w is fp32; allowed are both fp32, both bf16, or both of e4m3 and e5m2");
  const Quantized columns({kRows, kSize}, DType::e4m3, Scaling::column_128, 1);
  EXPECT_EQ(dgrad(columns, each, groups_),
            "grouped_gemm_dgrad: dy is e4m3 with scaling 128x1; scaled along what is summed over, allowed are tensor, "
            "1x128, 1x32");
  Operand turned = x;
  turned.transposed = true;
  turned.data.shape = {kSize, kRows};
  EXPECT_EQ(fprop(turned, each, groups_),
            "grouped_gemm_fprop: x (256, 128) lies transposed; allowed are dy and x of wgrad");
  Operand turned_w = each;
  turned_w.transposed = true;
  turned_w.data.shape = {kSize, kGroups * kSize};
  EXPECT_EQ(dgrad(x, turned_w, groups_),
            "grouped_gemm_dgrad: w (256, 128) lies transposed; allowed are dy and x of wgrad");
  const Buffer many_first = ints({0, 64, 128, 192}), many_rows = ints({1, 1, 1, 1});
  const Quantized tiles({kGroups * kSize, kSize}, DType::e4m3, Scaling::tile_128, 2);
  EXPECT_EQ(fprop(x, tiles, {many_first, many_rows}),
            "grouped_gemm_fprop: w has 64 rows for each group; with scaling 128x128 they must be whole blocks of 128");
  const Buffer short_y({kRows - 1, kSize}, DType::fp32);
  EXPECT_EQ(error_of([&] { kernels::grouped_gemm_fprop(exec_, short_y, x_, w_, groups_, work_); }),
            "grouped_gemm_fprop: output is (255, 128), 32768 elements needed");
  EXPECT_EQ(wgrad(Buffer({kGroups * kSize, kSize}, DType::bf16), x_, x_, groups_),
            "gemm_wgrad: dw is bf16; allowed is fp32");
}

}  // namespace
}  // namespace shard8::tests
