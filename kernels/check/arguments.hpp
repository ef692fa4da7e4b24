// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/error.hpp"
#include "kernels/quantize.hpp"
#include "tensor/tensor.hpp"

// Checks of the arguments of kernels: dtypes, numbers of elements, and whether the tensors of Outputs fit the result.

namespace shard8::kernels {

/// Calls f(std::type_identity<T>{}) with T the element type of fp32 or bf16. Throws Error(failed) for another dtype.
template <class F>
void dispatch_real(tensor::DType dtype, const char* kernel, const F& f) {
  switch (dtype) {
    case tensor::DType::fp32:
      return f(std::type_identity<float>{});
    case tensor::DType::bf16:
      return f(std::type_identity<tensor::BFloat16>{});
    default:
      break;
  }
  base::fail(base::ExitCode::failed, "{}: dtype {}; allowed are fp32 and bf16", kernel, tensor::name_of(dtype));
}

/// Calls f(std::type_identity<Q>{}) with Q the format of e4m3 or e5m2. Throws Error(failed) for another dtype.
template <class F>
void dispatch_float8(tensor::DType dtype, const char* kernel, const F& f) {
  switch (dtype) {
    case tensor::DType::e4m3:
      return f(std::type_identity<tensor::E4M3>{});
    case tensor::DType::e5m2:
      return f(std::type_identity<tensor::E5M2>{});
    default:
      break;
  }
  base::fail(base::ExitCode::failed, "{}: dtype {}; allowed are e4m3 and e5m2", kernel, tensor::name_of(dtype));
}

/// Throws Error(failed) unless the tensor has `count` elements.
inline void require_count(const char* kernel, const char* name, const tensor::Tensor& t, std::int64_t count) {
  SHARD8_REQUIRE(t.count() == count, "{}: {} is {}, {} elements needed", kernel, name, tensor::to_string(t.shape),
                 count);
}

/// The address of the number of rows that a kernel works on. Null if `end` is empty: the kernel works on all rows.
/// Throws Error(failed) unless `end` has one element.
inline const std::int32_t* row_end(const char* kernel, const tensor::Tensor& end) {
  if (end.empty()) return nullptr;
  require_count(kernel, "end", end, 1);
  return end.as<std::int32_t>();
}

/// Throws Error(failed) unless the workspace has at least `bytes` bytes.
inline void require_workspace(const char* kernel, const tensor::Tensor& workspace, std::size_t bytes) {
  SHARD8_REQUIRE(workspace.bytes() >= bytes, "{}: workspace of {} bytes, {} needed", kernel, workspace.bytes(), bytes);
}

/// Whether a cast is requested. (A shard without elements has no data, but still a scale.)
inline bool has_cast(const Outputs& out) { return !out.quantized.empty() || !out.quantized.scale_inv.empty(); }

/// Whether nothing is requested.
inline bool asks_for_nothing(const Outputs& out) { return out.plain.empty() && !has_cast(out) && out.amax.empty(); }

/// The tensor that has the shape of the result. The tensor has no elements if only an amax is requested.
inline const tensor::Tensor& result_of(const Outputs& out) {
  return out.plain.empty() && !out.quantized.empty() ? out.quantized.data : out.plain;
}

/// Throws Error(failed) unless the casts with block scales fit the result `out.plain` of `count` elements, and no cast
/// with one scale and no amax is requested as well. `kernel` and `name` as in require_outputs.
inline void require_blocks(const char* kernel, const char* name, const Outputs& out, std::int64_t count) {
  require_count(kernel, name, out.plain, count);
  SHARD8_REQUIRE(out.amax.empty() && !has_cast(out),
                 "{}: {} is cast with block scales and also with one scale; one of them is allowed", kernel, name);
  const auto check = [&](const tensor::Operand& cast, tensor::Scaling scaling) {
    if (cast.empty()) return;
    SHARD8_REQUIRE(cast.scaling == scaling, "{}: {} scaled by {}; allowed is {}", kernel, name,
                   tensor::name_of(cast.scaling), tensor::name_of(scaling));
    require_count(kernel, name, cast.data, count);
    require_count(kernel, "scale_inv", cast.scale_inv,
                  tensor::scale_shape(scaling, out.plain.rows(), out.plain.cols()).count());
  };
  check(out.blocks.rowwise, tensor::Scaling::row_128);
  check(out.blocks.columnwise, tensor::Scaling::column_128);
}

/// Throws Error(failed) unless something is requested and each tensor fits a result of `count` elements. `kernel` and
/// `name` are the operator and its argument, for the message.
inline void require_outputs(const char* kernel, const char* name, const Outputs& out, std::int64_t count) {
  if (!out.plain.empty() || (!has_cast(out) && out.amax.empty())) require_count(kernel, name, out.plain, count);
  if (!out.amax.empty()) require_count(kernel, "amax", out.amax, 1);
  if (!out.blocks.empty()) require_blocks(kernel, name, out, count);
  if (!has_cast(out)) return;
  require_count(kernel, name, out.quantized.data, count);
  SHARD8_REQUIRE(out.quantized.scaling == tensor::Scaling::tensor, "{}: {} scaled by {}; allowed is {}", kernel, name,
                 tensor::name_of(out.quantized.scaling), tensor::name_of(tensor::Scaling::tensor));
  require_count(kernel, "scale", out.scale, 1);
  require_count(kernel, "scale_inv", out.quantized.scale_inv, 1);
  if (!out.transposed.empty()) require_count(kernel, "transposed", out.transposed, count);
}

/// Throws Error(failed) unless the tensors of an RMSNorm over x (T, H) have the counts that kernels/elementwise.hpp states.
inline void require_rmsnorm(const char* kernel, const Outputs& y, const tensor::Tensor& rstd, const tensor::Tensor& x,
                            const tensor::Tensor& weight) {
  require_outputs(kernel, "y", y, x.rows() * x.cols());
  require_count(kernel, "rstd", rstd, x.rows());
  require_count(kernel, "weight", weight, x.cols());
}

/// As require_rmsnorm, for a LayerNorm.
inline void require_layernorm(const char* kernel, const Outputs& y, const tensor::Tensor& mean,
                              const tensor::Tensor& rstd, const tensor::Tensor& x, const tensor::Tensor& weight,
                              const tensor::Tensor& bias) {
  require_outputs(kernel, "y", y, x.rows() * x.cols());
  require_count(kernel, "mean", mean, x.rows());
  require_count(kernel, "rstd", rstd, x.rows());
  require_count(kernel, "weight", weight, x.cols());
  require_count(kernel, "bias", bias, x.cols());
}

}  // namespace shard8::kernels
