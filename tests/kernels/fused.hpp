// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/quantize.hpp"
#include "tests/kernels/buffer.hpp"
#include "tests/support/compare.hpp"

/// Shared by tests of kernels that quantize their results (Outputs).
namespace shard8::tests {

using kernels::CastCounts;
using kernels::Outputs;
using Bytes = std::vector<std::uint8_t>;

inline Bytes bytes_of(const Tensor& t) { return stored<std::uint8_t>(t); }
/// Copies the bytes of `from`, which has as many elements of the same dtype.
inline void copy_bytes(const Tensor& to, const Tensor& from) { store(to, bytes_of(from)); }

enum class Kind { random, constant, zero, subnormal, infinite, nan };
inline constexpr Kind kKinds[] = {Kind::random, Kind::constant, Kind::zero, Kind::subnormal, Kind::infinite, Kind::nan};
inline std::string_view name_of(Kind kind) {
  constexpr std::string_view kNames[] = {"random", "constant", "zero", "subnormal", "infinite", "NaN"};
  return kNames[static_cast<int>(kind)];
}

/// The signs of the NaN in an input: both, or one. If two NaN are multiplied, hosts keep the sign of the operand that
/// the compiler puts first, so a test that multiplies NaN uses one sign.
enum class NanSigns { both, one };

/// Random values of a kind; a few of them infinities and NaN if the kind has them.
inline Buffer draw(Kind kind, const Shape& shape, DType dtype, unsigned seed, NanSigns signs = NanSigns::both) {
  if (kind == Kind::constant) return {shape, dtype, 0.7};
  if (kind == Kind::zero) return {shape, dtype, 0.0};
  auto buffer = Buffer::normal(shape, dtype, seed, kind == Kind::subnormal ? 2e-39 : 2);
  if (kind == Kind::random || kind == Kind::subnormal) return buffer;
  auto values = buffer.get();
  const double special =
      kind == Kind::nan ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
  const bool one_sign = kind == Kind::nan && signs == NanSigns::one;
  for (std::size_t i = values.size() / 3; i < values.size(); i += 101)
    values[i] = one_sign || i % 2 == 0 ? special : -special;
  buffer.set(values);
  return buffer;
}

/// Compute dtypes and kinds of values, for tests of both.
struct FusedCase {
  DType dtype;
  Kind kind;
};
inline std::vector<FusedCase> fused_cases() {
  std::vector<FusedCase> all;
  for (const auto dtype : {DType::fp32, DType::bf16}) {
    for (const auto kind : kKinds) all.push_back({dtype, kind});
  }
  return all;
}
inline std::string label(const ::testing::TestParamInfo<FusedCase>& info) {
  return std::string(tensor::name_of(info.param.dtype)) + "_" + std::string(name_of(info.param.kind));
}
/// A test with values of its case.
class WithFusedCase : public ::testing::TestWithParam<FusedCase> {
 protected:
  Buffer input(const Shape& shape, unsigned seed, NanSigns signs = NanSigns::both) const {
    return draw(GetParam().kind, shape, dtype_, seed, signs);
  }
  /// The input of a norm. A norm multiplies NaN by statistics of its row, which are NaN too.
  Buffer norm_input(const Shape& shape, unsigned seed) const { return input(shape, seed, NanSigns::one); }
  Buffer normal(const Shape& shape, unsigned seed) const { return Buffer::normal(shape, dtype_, seed); }
  DType dtype_ = GetParam().dtype;
};

/// Which parts of Outputs are asked for; quantized to `format`.
struct Parts {
  bool plain, amax, quantized;
  DType format = DType::e4m3;
};
inline std::string to_string(const Parts& p) {
  return std::string(p.plain ? "plain " : "") + (p.amax ? "amax " : "") +
         (p.quantized ? std::string(tensor::name_of(p.format)) : "");
}
/// Every subset of parts but the empty one.
inline std::vector<Parts> all_parts() {
  std::vector<Parts> all{{true, false, false}, {false, true, false}, {true, true, false}};
  for (const auto format : {DType::e4m3, DType::e5m2}) {
    for (const bool plain : {false, true}) {
      for (const bool amax : {false, true}) all.push_back({plain, amax, true, format});
    }
  }
  return all;
}

inline Shape turned(const Shape& shape) { return shape.rank() == 2 ? Shape{shape[1], shape[0]} : shape; }

/// Memory for all parts of an output. No part is zero at first.
struct Memory {
  Memory(const Shape& shape, DType dtype, const Parts& parts, double scale_value)
      : has(parts),
        plain(shape, dtype, -3.5),
        amax({1}, DType::i32, 0x38d1b717),  // the bits of 1e-4
        quantized(shape, parts.format, -2.5),
        transposed(turned(shape), parts.format, -1.5),
        scale({1}, DType::fp32, scale_value),
        scale_inv({1}, DType::fp32, 77) {}

  /// The outputs to ask a fused kernel for.
  Outputs outputs() {
    Outputs out;
    if (has.plain) out.plain = plain;
    if (has.amax) out.amax = amax;
    if (has.quantized) out.quantized = operand();
    if (has.quantized && quantized.shape().rank() == 2) out.transposed = transposed;
    if (has.quantized) out.scale = scale;
    out.counts = counts;
    return out;
  }
  tensor::Operand operand() const { return {quantized, scale_inv, tensor::Scaling::tensor}; }
  /// Computes the same parts from a plain tensor, by one kernel after the other.
  void leave(const Exec& exec, const Tensor& made, bool through_bf16 = false) {
    if (has.amax) kernels::amax(exec, amax, made, {.through_bf16 = through_bf16});
    if (has.quantized) {
      kernels::quantize(exec, operand(), Tensor{}, made, scale, {.through_bf16 = through_bf16, .counts = counts});
      if (quantized.shape().rank() == 2) kernels::transpose_bytes(exec, transposed, quantized);
    }
  }

  Parts has;
  Buffer plain, amax, quantized, transposed, scale, scale_inv;
  Counts counts{{3, 5, 7, 0}};
};

inline void expect_same(const Memory& got, const Memory& want) {
  EXPECT_TRUE(same_bits(bytes_of(got.plain), bytes_of(want.plain))) << "plain";
  EXPECT_EQ(got.amax.get(), want.amax.get());
  EXPECT_TRUE(same_bits(bytes_of(got.quantized), bytes_of(want.quantized))) << "quantized";
  EXPECT_TRUE(same_bits(bytes_of(got.transposed), bytes_of(want.transposed))) << "transposed";
  EXPECT_EQ(got.scale_inv.get(), want.scale_inv.get());
  const auto got_counts = got.counts.get(), want_counts = want.counts.get();
  EXPECT_EQ(got_counts.saturated, want_counts.saturated);
  EXPECT_EQ(got_counts.flushed, want_counts.flushed);
  EXPECT_EQ(got_counts.scale_change, want_counts.scale_change);
}

/// Compares run(exec, outputs) for every subset of outputs with run into a plain output followed by amax and quantize.
/// `inputs` must not change. The scales make some elements saturate and flush some to zero.
template <class F>
void expect_fused_equals_unfused(const Shape& shape, DType dtype, const std::vector<Tensor>& inputs, const F& run) {
  const Exec first;
  const Buffer made(shape, dtype, -3.5);
  run(first, made);
  std::vector<Bytes> before;
  for (const auto& input : inputs) before.push_back(bytes_of(input));
  for (const auto& parts : all_parts()) {
    for (const double scale : {700.0, 3e-4}) {
      if (!parts.quantized && scale != 700.0) continue;
      SCOPED_TRACE(to_string(parts) + " scale " + digits(scale));
      Memory want(shape, dtype, parts, scale);
      want.leave(first, made);
      if (parts.plain) copy_bytes(want.plain, made);
      // Other numbers of threads where every part is asked for.
      const bool all = parts.plain && parts.amax && parts.quantized;
      for (const auto& exec : all ? exec_widths() : std::vector<Exec>{first}) {
        Memory got(shape, dtype, parts, scale);
        run(exec, got.outputs());
        exec.fence("shard8::tests::fused");
        expect_same(got, want);
      }
      for (std::size_t i = 0; i < inputs.size(); ++i) EXPECT_EQ(bytes_of(inputs[i]), before[i]) << "input " << i;
    }
  }
}

}  // namespace shard8::tests
