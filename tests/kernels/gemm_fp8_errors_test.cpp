// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>

#include "kernels/gemm.hpp"
#include "tests/kernels/gemm_fp8.hpp"

namespace shard8::tests {
namespace {

constexpr std::int64_t kSize = 128;
using Texts = std::vector<std::string>;

/// The message that the action throws; empty if it throws nothing.
std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const base::Error& e) {
    return e.what();
  }
  return "";
}

void expect_says(const std::string& error, const Texts& texts) {
  ASSERT_FALSE(error.empty()) << "nothing thrown";
  for (const auto& text : texts) EXPECT_NE(error.find(text), std::string::npos) << text << " is not in: " << error;
}

struct Kernel {
  std::string name;
  Texts operands;
  std::function<void(const Operand&, const Operand&)> call;
  std::set<Scaling> allowed[2];
};

/// Square matrices of 128, which are whole blocks in every scaling.
class GemmFp8Errors : public ::testing::Test {
 protected:
  Exec exec_;
  Buffer work_ = Buffer::bytes(kernels::gemm_workspace_bytes(DType::e4m3, kSize, kSize, kSize));
  Buffer out_{{kSize, kSize}, DType::fp32};
  Buffer half_{{kSize, kSize}, DType::bf16};

  static Quantized matrix(Scaling scaling, DType dtype = DType::e4m3) { return {{kSize, kSize}, dtype, scaling, 1}; }

  std::vector<Kernel> kernels() {
    return {
        {"gemm_fprop",
         {"x", "w"},
         [this](const Operand& x, const Operand& w) { kernels::gemm_fprop(exec_, out_, x, w, Tensor{}, work_); },
         {{Scaling::tensor, Scaling::row_128, Scaling::row_32}, {Scaling::tensor, Scaling::tile_128, Scaling::row_32}}},
        {"gemm_dgrad",
         {"dy", "w"},
         [this](const Operand& dy, const Operand& w) { kernels::gemm_dgrad(exec_, out_, dy, w, false, work_); },
         {{Scaling::tensor, Scaling::row_128, Scaling::row_32},
          {Scaling::tensor, Scaling::tile_128, Scaling::column_32}}},
        {"gemm_wgrad",
         {"dy", "x"},
         [this](const Operand& dy, const Operand& x) { kernels::gemm_wgrad(exec_, out_, dy, x, false, work_); },
         {{Scaling::tensor, Scaling::column_128, Scaling::column_32},
          {Scaling::tensor, Scaling::column_128, Scaling::column_32}}}};
  }
};

TEST_F(GemmFp8Errors, ScalingAlongWhatIsNotSummedOver) {
  const Quantized good = matrix(Scaling::tensor);
  for (const auto& kernel : kernels()) {
    for (const int which : {0, 1}) {
      for (const Scaling s : {Scaling::tensor, Scaling::row_128, Scaling::column_128, Scaling::tile_128,
                              Scaling::row_32, Scaling::column_32}) {
        const Quantized other = matrix(s);
        const auto error = error_of([&] {
          if (which == 0) kernel.call(other, good);
          if (which == 1) kernel.call(good, other);
        });
        SCOPED_TRACE(kernel.name + " " + kernel.operands[static_cast<std::size_t>(which)]);
        if (kernel.allowed[which].contains(s)) {
          EXPECT_EQ(error, "");
          continue;
        }
        expect_says(error, {kernel.name + ": " + kernel.operands[static_cast<std::size_t>(which)] + " is e4m3",
                            "scaling " + std::string(name_of(s))});
        for (const Scaling a : kernel.allowed[which]) expect_says(error, {std::string(name_of(a))});
      }
    }
  }
}

TEST_F(GemmFp8Errors, OperandsThatDoNotGoTogether) {
  const Quantized e4m3 = matrix(Scaling::tensor), e5m2 = matrix(Scaling::tensor, DType::e5m2);
  const Buffer bytes({kSize, kSize}, DType::u8);
  for (const auto& kernel : kernels()) {
    const std::string first = kernel.name + ": " + kernel.operands[0], second = kernel.operands[1];
    expect_says(error_of([&] { kernel.call(e5m2, e5m2); }), {first, second + " are both e5m2", "at most one"});
    expect_says(error_of([&] { kernel.call(e4m3, half_); }), {first + " is e4m3", second + " is bf16"});
    expect_says(error_of([&] { kernel.call(half_, e4m3); }), {first + " is bf16", second + " is e4m3"});
    expect_says(error_of([&] { kernel.call(half_, out_); }), {first + " is bf16", "is fp32"});
    expect_says(error_of([&] { kernel.call(bytes, bytes); }), {first + " is u8", "e4m3 and e5m2"});
    expect_says(error_of([&] { kernel.call(Operand(e4m3.operand().data), e4m3); }),
                {first + " is e4m3", "scaling none"});
    const Operand scaled(half_, e4m3.operand().scale_inv, Scaling::tensor);
    expect_says(error_of([&] { kernel.call(scaled, half_); }), {first + " is bf16 with scaling tensor"});
    Operand two_levels = e4m3.operand();
    two_levels.matrix_scale_inv = two_levels.scale_inv.as<float>();
    for (const Operand& two : {two_levels, two_levels.slice(0, kSize)})
      expect_says(error_of([&] { kernel.call(two, e4m3); }), {first + " has a second level of scales"});
    EXPECT_EQ(error_of([&] { kernel.call(e4m3, e5m2); }), "");
    EXPECT_EQ(error_of([&] { kernel.call(e5m2, e4m3); }), "");
  }
}

TEST_F(GemmFp8Errors, ScalesThatAreNotThoseOfTheMatrix) {
  const Quantized w = matrix(Scaling::tensor), x = matrix(Scaling::row_128);
  const Buffer few({kSize - 1}, DType::fp32), powers({kSize}, DType::e8m0, 1), cut({kSize, 100}, DType::e4m3);
  const auto with = [&](const Buffer& data, const Buffer& scales) {
    return error_of(
        [&] { kernels::gemm_fprop(exec_, out_, Operand(data, scales, Scaling::row_128), w, Tensor{}, work_); });
  };
  const Buffer data({kSize, kSize}, DType::e4m3);
  expect_says(with(data, few), {"gemm_fprop: x", "127", "128", "fp32"});
  expect_says(with(data, powers), {"gemm_fprop: x", "e8m0", "fp32"});
  expect_says(with(cut, few), {"gemm_fprop: x (128, 100)", "1x128"});
}

TEST_F(GemmFp8Errors, TransposedOnHosts) {
  if (tensor::kDevice) GTEST_SKIP() << "devices take them";
  const Quantized x = matrix(Scaling::tensor);
  const Buffer data({kSize, kSize}, DType::e4m3);
  Operand w(data, x.operand().scale_inv, Scaling::tensor);
  w.transposed = true;
  expect_says(error_of([&] { kernels::gemm_dgrad(exec_, out_, x, w, false, work_); }),
              {"gemm_dgrad: w (128, 128) lies transposed", "hosts"});
}

TEST_F(GemmFp8Errors, Outputs) {
  const Quantized x = matrix(Scaling::tensor), w = matrix(Scaling::tensor);
  const Buffer bytes({kSize, kSize}, DType::u8), small({kSize, kSize - 1}, DType::fp32), few({64}, DType::u8);
  const Buffer bias({kSize}, DType::fp32), short_bias({kSize - 1}, DType::fp32);
  const auto fprop = [&](const Buffer& y, const Tensor& b, const Buffer& work) {
    return error_of([&] { kernels::gemm_fprop(exec_, y, x, w, b, work); });
  };
  expect_says(fprop(bytes, Tensor{}, work_), {"gemm_fprop", "u8", "fp32 or bf16"});
  expect_says(fprop(half_, bias, work_), {"gemm_fprop: bias is fp32", "allowed is bf16"});
  expect_says(fprop(out_, short_bias, work_), {"gemm_fprop: bias", "128"});
  expect_says(fprop(small, Tensor{}, work_), {"gemm_fprop: output"});
  expect_says(fprop(out_, Tensor{}, few), {"gemm_fprop: workspace of 64"});
  expect_says(error_of([&] { kernels::gemm_dgrad(exec_, half_, x, w, true, work_); }),
              {"gemm_dgrad: cannot accumulate in bf16", "fp32"});
  expect_says(error_of([&] { kernels::gemm_wgrad(exec_, half_, x, w, false, work_); }),
              {"gemm_wgrad: dw is bf16", "fp32"});
}

}  // namespace
}  // namespace shard8::tests
