// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

// Compares the quantizers with PyTorch's and torchao's bytes, see tests/gold/README.md.

#include <gtest/gtest.h>

#include "kernels/quantize.hpp"
#include "tests/kernels/quantize_cases.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/h5_reader.hpp"

namespace shard8::tests {
namespace {

using tensor::Operand;
using tensor::Scaling;

const std::string kCasts = SHARD8_SOURCE_DIR "/tests/gold/fp8_casts.h5";
const std::string kBlocks = SHARD8_SOURCE_DIR "/tests/gold/block_scales.h5";

Shape shape_of(const std::vector<std::int64_t>& extents) {
  if (extents.size() == 1) return {extents[0]};
  return {extents.at(0), extents.at(1)};
}

/// Reads an fp32 data set, in which every number is a bf16 number, as fp32 or bf16.
Buffer gold_input(const std::string& file, const std::string& name, DType dtype) {
  const auto in = h5_read<float>(file, name);
  return {shape_of(in.shape), dtype, std::vector<double>(in.values.begin(), in.values.end())};
}

class QuantizeGolden : public ::testing::TestWithParam<DType> {
 protected:
  static std::vector<std::uint8_t> gold_bytes(const std::string& file, const std::string& name) {
    return h5_read<std::uint8_t>(file, name).values;
  }
  /// Compares quantize_blocks, from fp32 and from bf16, with the data and scales of `group`, bit for bit.
  void check_blocks(const std::string& group, Scaling scaling) const {
    const auto x = gold_input(kBlocks, "in_bf16_as_f32", dtype_);
    const Buffer data(x.shape(), DType::e4m3);
    const Buffer scale_inv(tensor::scale_shape(scaling, x.shape()[0], x.shape()[1]), DType::fp32);
    kernels::quantize_blocks(exec_, Operand(data, scale_inv, scaling), x, {});
    EXPECT_TRUE(same_bits(raw(data), gold_bytes(kBlocks, group + "/data_u8")));
    const auto want = h5_read<float>(kBlocks, group + "/scale_inv");
    EXPECT_EQ(shape_of(want.shape), scale_inv.shape());
    EXPECT_TRUE(same_bits(elements<float>(scale_inv), want.values));
  }

  Exec exec_;
  DType dtype_ = GetParam();
};

TEST_P(QuantizeGolden, Rows) { check_blocks("act_1x128", Scaling::row_128); }
TEST_P(QuantizeGolden, Columns) { check_blocks("act_128x1", Scaling::column_128); }
TEST_P(QuantizeGolden, Squares) { check_blocks("weight_128x128", Scaling::tile_128); }

TEST_P(QuantizeGolden, Current) {
  const auto x = gold_input(kBlocks, "in_bf16_as_f32", dtype_);
  for (const DType format : {DType::e4m3, DType::e5m2}) {
    for (const bool power_of_2 : {false, true}) {
      const std::string group = "current/" + std::string(name_of(format)) + (power_of_2 ? "_pow2" : "");
      SCOPED_TRACE(group);
      const Buffer data(x.shape(), format), scale({1}, DType::fp32), scale_inv({1}, DType::fp32), amax({1}, DType::i32);
      const float largest = format == DType::e4m3 ? 448.0f : 57344.0f;
      kernels::amax(exec_, amax, x, {});
      kernels::scale_of_amax(exec_, scale, Tensor{}, amax, {.largest = largest, .power_of_2 = power_of_2}, false);
      kernels::quantize(exec_, Operand(data, scale_inv, Scaling::tensor), Tensor{}, x, scale, {});
      EXPECT_TRUE(same_bits(elements<float>(scale), h5_read<float>(kBlocks, group + "/scale").values));
      EXPECT_EQ(elements<float>(scale_inv)[0], 1.0f / elements<float>(scale)[0]);
      EXPECT_TRUE(same_bits(raw(data), gold_bytes(kBlocks, group + "/data_u8")));
    }
  }
}

TEST_P(QuantizeGolden, Mx) {
  const auto x = gold_input(kCasts, "mx/in_bf16_as_f32", dtype_);
  const Buffer data(x.shape(), DType::e4m3);
  const Buffer scale_inv(tensor::scale_shape(Scaling::row_32, x.shape()[0], x.shape()[1]), DType::e8m0);
  kernels::quantize_blocks(exec_, Operand(data, scale_inv, Scaling::row_32), x, {});
  EXPECT_TRUE(same_bits(raw(scale_inv), gold_bytes(kCasts, "mx/e4m3_rceil/scale_e8m0")));
  EXPECT_TRUE(same_bits(raw(data), gold_bytes(kCasts, "mx/e4m3_rceil/data_u8")));
}

/// The casts that the codec's own test makes, here through the vector code of the kernel.
TEST_P(QuantizeGolden, Casts) {
  for (const DType format : {DType::e4m3, DType::e5m2}) {
    const std::string group(name_of(format));
    for (const char* set : {"/bf16_all", "/f32"}) {
      if (dtype_ == DType::bf16 && set == std::string("/f32")) continue;
      SCOPED_TRACE(group + set);
      const auto x = gold_input(kCasts, group + set + "/in_f32", dtype_);
      const Buffer data(x.shape(), format), one({1}, DType::fp32, 1), scale_inv({1}, DType::fp32);
      kernels::quantize(exec_, Operand(data, scale_inv, Scaling::tensor), Tensor{}, x, one, {});
      EXPECT_TRUE(same_bits(raw(data), gold_bytes(kCasts, group + set + "/out_u8_saturating")));
    }
    const auto want = h5_read<float>(kCasts, group + "/decode_f32").values;
    const Buffer codes = all_codes(format), one({1}, DType::fp32, 1), out({256}, dtype_);
    kernels::dequantize(exec_, out, Operand(codes, one, Scaling::tensor));
    const auto got = out.get();
    for (std::size_t c = 0; c < want.size(); ++c) {
      EXPECT_TRUE(std::isnan(want[c]) ? std::isnan(got[c]) : got[c] == static_cast<double>(want[c])) << c;
      EXPECT_EQ(std::signbit(got[c]), c >= 128);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, QuantizeGolden, ::testing::Values(DType::fp32, DType::bf16));

}  // namespace
}  // namespace shard8::tests
