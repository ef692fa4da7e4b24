// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "tensor/exec.hpp"
#include "tensor/operand.hpp"

namespace shard8::kernels {

/// What casts to 8 bits lost, in memory of the execution space; kernels add with atomics.
struct CastCounts {
  std::uint64_t saturated = 0;  ///< x·scale that rounds beyond the largest number of the format; infinities too
  std::uint64_t flushed = 0;    ///< x that was not zero and became zero
  /// Bits of the largest factor, up or down, by which a block's scale in place changed when it was
  /// written again, with CastOptions::compare_scales (fp32 ≥ 1; 0: none was).
  std::uint32_t scale_change = 0;
  std::uint32_t padding = 0;
};

/// How a cast to 8 bits is made; the same for every quantizer.
struct CastOptions {
  /// fp32 input is rounded to bf16 first: FP8 = Q(scale·bf16(x)).
  bool through_bf16 = false;
  /// Block scales are floored to powers of two (those of 1×32 always are).
  bool power_of_2 = false;
  /// Where to count; null: nowhere.
  CastCounts* counts = nullptr;
  /// Block scales in place are those of the same matrix before: count by how much they change.
  bool compare_scales = false;
  /// As Outputs::transposed_alone.
  bool transposed_alone = false;
};

/// How the scale of an amax is made: scale = largest·2^−margin / amax in fp32; amax 0, infinite or
/// NaN gives `otherwise`; infinity becomes FLT_MAX; then floored to a power of two if asked.
struct ScaleRule {
  float largest = 448.0f;
  int margin = 0;
  bool power_of_2 = false;
};

/// The amax of x, by the order of the bits of |x|, so that NaN wins: amax (1) i32 = max(amax, ...).
void amax(const tensor::Exec& exec, const tensor::Tensor& amax, const tensor::Tensor& x, const CastOptions& options);

/// scale (n) fp32 of amax (n) i32 bits; 1 where the amax gives none (current scaling). change (n) i32,
/// unless empty, holds the bits of the largest factor by which each scale ever changed, and is
/// updated; `clear` sets the amaxes to 0, ready for the next.
void scale_of_amax(const tensor::Exec& exec, const tensor::Tensor& scale, const tensor::Tensor& change,
                   const tensor::Tensor& amax, const ScaleRule& rule, bool clear);

/// One scale for all: out.data (any shape) = cast(x·scale), out.scale_inv (1) = 1/scale, with scale
/// (1) fp32 in device memory; amax (1) i32 = max(amax, that of x) unless it is empty.
void quantize(const tensor::Exec& exec, const tensor::Operand& out, const tensor::Tensor& amax, const tensor::Tensor& x,
              const tensor::Tensor& scale, const CastOptions& options);

/// The same, and transposed (C, R) = out.data (R, C)ᵀ in the same pass, for multipliers that read only
/// K-major operands.
void quantize_transpose(const tensor::Exec& exec, const tensor::Operand& out, const tensor::Tensor& transposed,
                        const tensor::Tensor& amax, const tensor::Tensor& x, const tensor::Tensor& scale,
                        const CastOptions& options);

/// Block scales: data (R, C) e4m3 and scale_inv of x (R, C), blocks as out.scaling says. 128-wide:
/// scale = 448/amax (1 for amax 0, infinite or NaN), scale_inv = 1/scale. 32-wide: e8m0 scale_inv is
/// amax/448 rounded up to a power of two (OCP MX with `rceil`), data = cast(x/scale_inv).
void quantize_blocks(const tensor::Exec& exec, const tensor::Operand& out, const tensor::Tensor& x,
                     const CastOptions& options);
/// Both directions of one source in one pass: row is row_128 or row_32, column its counterpart.
void quantize_blocks(const tensor::Exec& exec, const tensor::Operand& row, const tensor::Operand& column,
                     const tensor::Tensor& x, const CastOptions& options);

/// out (R, C) fp32 or bf16 = the values of in, rounded once.
void dequantize(const tensor::Exec& exec, const tensor::Tensor& out, const tensor::Operand& in);

/// out (C, R) = in (R, C)ᵀ, one byte an element: what a multiplier that reads only K-major operands
/// needs of a per-tensor or 128×128-scaled matrix.
void transpose_bytes(const tensor::Exec& exec, const tensor::Tensor& out, const tensor::Tensor& in);

/// Where a kernel that makes something in the compute dtype leaves it, each part optional (empty):
/// what is made is first rounded to the compute dtype `dtype`; `plain` is that; `amax` becomes
/// max(amax, its amax); `quantized` (Scaling::tensor) is its cast with `scale` (1), 1/scale beside
/// it, and `transposed` (C, R) that cast transposed, for multipliers that read only K-major operands.
/// So a kernel with all of them gives the bytes of the plain one followed by amax, quantize and
/// transpose_bytes.
struct Outputs {
  tensor::Tensor plain;
  tensor::Tensor amax;
  tensor::Operand quantized;
  tensor::Tensor transposed;
  tensor::Tensor scale;
  CastCounts* counts = nullptr;
  /// Of the cast `transposed` alone is wanted: what lies in `quantized.data` afterwards is not said.
  bool transposed_alone = false;

  Outputs() = default;
  Outputs(const tensor::Tensor& just_plain) : plain(just_plain) {}  // NOLINT: a plain output is an output
};

}  // namespace shard8::kernels
