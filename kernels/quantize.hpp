// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "tensor/exec.hpp"
#include "tensor/operand.hpp"

namespace shard8::kernels {

/// What casts to 8 bits lost. In memory of the execution space; kernels add to it with atomics.
struct CastCounts {
  std::uint64_t saturated = 0;  ///< how many x·scale round beyond the format's largest number, infinities included
  std::uint64_t flushed = 0;    ///< how many x were not zero and became zero
  /// With CastOptions::compare_scales: the bits of the largest factor, up or down, by which a block's scale changed
  /// when it was overwritten (fp32 ≥ 1; 0: no scale was overwritten).
  std::uint32_t scale_change = 0;
  std::uint32_t padding = 0;
};

/// Options of a cast to 8 bits; every quantizer takes them.
struct CastOptions {
  /// Round fp32 input to bf16 first: FP8 = Q(scale·bf16(x)).
  bool through_bf16 = false;
  /// Floor block scales to powers of two (1×32 scales always are).
  bool power_of_2 = false;
  /// Where to count; null: nowhere.
  CastCounts* counts = nullptr;
  /// The output holds block scales of an earlier cast of the same matrix: report by how much they change in `counts`.
  bool compare_scales = false;
  /// As Outputs::transposed_alone.
  bool transposed_alone = false;
};

/// How a scale follows from an amax: scale = largest·2^−margin / amax in fp32; infinity becomes FLT_MAX; then the scale
/// is floored to a power of two if `power_of_2`. An amax of 0, infinity or NaN gives no scale: the operator says which
/// scale is used instead.
struct ScaleRule {
  float largest = 448.0f;
  int margin = 0;
  bool power_of_2 = false;
};

/// amax (1) i32 = max(amax, amax of x), where the amax of x is the largest |x| by its bits: a NaN wins.
void amax(const tensor::Exec& exec, const tensor::Tensor& amax, const tensor::Tensor& x, const CastOptions& options);

/// Current scaling: scale (n) fp32 from amax (n), the bits of amaxes as i32; 1 where an amax gives no scale. change (n)
/// i32, unless empty, is updated: the bits of the largest factor by which each scale ever changed. `clear` sets the
/// amaxes to 0 afterwards.
void scale_of_amax(const tensor::Exec& exec, const tensor::Tensor& scale, const tensor::Tensor& change,
                   const tensor::Tensor& amax, const ScaleRule& rule, bool clear);

/// A cast with one scale: out.data (any shape) = cast(x·scale), out.scale_inv (1) = 1/scale. scale (1) fp32 is in
/// memory of the execution space. amax (1) i32 = max(amax, amax of x) unless it is empty.
void quantize(const tensor::Exec& exec, const tensor::Operand& out, const tensor::Tensor& amax, const tensor::Tensor& x,
              const tensor::Tensor& scale, const CastOptions& options);

/// As quantize, and transposed (C, R) = out.data (R, C)ᵀ in the same pass: for multipliers that read only K-major
/// operands.
void quantize_transpose(const tensor::Exec& exec, const tensor::Operand& out, const tensor::Tensor& transposed,
                        const tensor::Tensor& amax, const tensor::Tensor& x, const tensor::Tensor& scale,
                        const CastOptions& options);

/// A cast with block scales: out.data (R, C) e4m3 and out.scale_inv of x (R, C), blocks as out.scaling says. 128-wide:
/// scale = 448/amax (1 for amax 0, infinite or NaN), scale_inv = 1/scale. 32-wide: e8m0 scale_inv is
/// amax/448 rounded up to a power of two (OCP MX with `rceil`), data = cast(x/scale_inv).
void quantize_blocks(const tensor::Exec& exec, const tensor::Operand& out, const tensor::Tensor& x,
                     const CastOptions& options);
/// Casts one source in both directions in one pass: row is row_128 or row_32, column column_128 or column_32.
void quantize_blocks(const tensor::Exec& exec, const tensor::Operand& row, const tensor::Operand& column,
                     const tensor::Tensor& x, const CastOptions& options);

/// out (R, C) fp32 or bf16 = data·scale_inv of in, rounded once.
void dequantize(const tensor::Exec& exec, const tensor::Tensor& out, const tensor::Operand& in);

/// out (C, R) = in (R, C)ᵀ, one byte an element: what a multiplier that reads only K-major operands
/// needs of a per-tensor or 128×128-scaled matrix.
void transpose_bytes(const tensor::Exec& exec, const tensor::Tensor& out, const tensor::Tensor& in);

/// Where an operator writes its result (R, C); every part may be empty, and is not written then. The result is first
/// rounded to the compute dtype. `plain`: the rounded result. `amax` (1) i32: becomes max(amax, amax of the rounded
/// result). `quantized` (Scaling::tensor): its cast with `scale` (1), and 1/scale in quantized.scale_inv. `transposed`
/// (C, R): that cast transposed, for multipliers that read only K-major operands. All parts together have the same
/// bytes as the plain result followed by amax, quantize and transpose_bytes.
struct Outputs {
  tensor::Tensor plain;
  tensor::Tensor amax;
  tensor::Operand quantized;
  tensor::Tensor transposed;
  tensor::Tensor scale;
  CastCounts* counts = nullptr;
  /// Only `transposed` is needed of the cast: quantized.data is undefined afterwards.
  bool transposed_alone = false;

  Outputs() = default;
  Outputs(const tensor::Tensor& just_plain) : plain(just_plain) {}  // NOLINT: a plain output is an output
};

}  // namespace shard8::kernels
