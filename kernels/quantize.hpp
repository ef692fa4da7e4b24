// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "tensor/operand.hpp"
#include "tensor/runtime.hpp"

namespace shard8::kernels {

/// Counts of what casts to 8 bits lost. The object lies in memory of the execution space. The caller sets it to zero;
/// kernels add to it with atomics.
struct CastCounts {
  /// Elements whose x·scale rounds beyond the largest number of the format, infinities included.
  std::uint64_t saturated = 0;
  std::uint64_t flushed = 0;  ///< elements that were not zero and became zero
  /// The bits of the largest factor, up or down, by which the scale of a block changed when quantize_blocks overwrote
  /// it with CastOptions::compare_scales: an fp32 number of at least 1. 0: no such scale was overwritten.
  std::uint32_t scale_change = 0;
  std::uint32_t padding = 0;
  /// The elements that were cast, but only in casts with CastOptions::end: of these the host does not know how many
  /// elements they cast. Casts with blocks along rows and along columns count each element twice.
  std::uint64_t elements = 0;
};

/// Options of a cast to 8 bits. Every quantizer takes them and ignores those that do not concern it.
struct CastOptions {
  /// Whether fp32 input is first rounded to bf16: FP8 = Q(scale·bf16(x)).
  bool through_bf16 = false;
  /// Whether scales of 128-wide blocks are floored to powers of two. (Scales of 32-wide blocks always are powers of
  /// two; a scale for a whole matrix follows ScaleRule::power_of_2.)
  bool power_of_2 = false;
  /// Where quantize, quantize_transpose and quantize_blocks count; null: they do not count.
  CastCounts* counts = nullptr;
  /// Whether the output already has the block scales of an earlier cast of the same matrix. quantize_blocks then
  /// reports in CastCounts::scale_change by how much they change. Needs `counts`.
  bool compare_scales = false;
  /// Only quantize_transpose uses this option, as Outputs::transposed_alone.
  bool transposed_alone = false;
  /// (1) i32 in memory of the execution space: how many rows of x are cast, from the first row on. The other rows are
  /// not read, not counted and not written; what a transposed copy holds of them afterwards is undefined. The number
  /// must be from 0 to the rows of x, and a multiple of 16 and of the rows of a block. Empty: all rows are cast.
  tensor::Tensor end{};
};

/// How a scale follows from an amax: scale = largest·2^−margin / amax, in fp32. An infinite scale becomes FLT_MAX. Then
/// the scale is floored to a power of two if `power_of_2`. For an amax of 0, infinity or NaN the rule gives no scale;
/// each operator says which scale it then uses.
struct ScaleRule {
  float largest = 448.0f;  ///< the largest number of the format
  int margin = 0;
  bool power_of_2 = false;
};

/// amax (1) i32 = max(amax, amax of x). The amax of x is the largest |x| by the order of its bits, so a NaN wins. The
/// amax is stored as the bits of an fp32 number. x is fp32 or bf16, of any shape. Only the options through_bf16 and end
/// are used.
void amax(const tensor::Exec& exec, const tensor::Tensor& amax, const tensor::Tensor& x, const CastOptions& options);

/// Current scaling: scale (n) fp32 follows by `rule` from amax (n), the bits of amaxes as i32. Where the rule gives no
/// scale, the scale is 1. change (n) i32, unless empty, is updated: the bits of the largest factor, up or down, by
/// which each scale has changed since the first call. The caller sets change to 0 before the first call, which sets it
/// to the bits of 1. If `clear`, the amaxes become 0 afterwards. If `keep`, the scale and the change of an amax of 0
/// stay: such a matrix may have had no rows (CastOptions::end).
void scale_of_amax(const tensor::Exec& exec, const tensor::Tensor& scale, const tensor::Tensor& change,
                   const tensor::Tensor& amax, const ScaleRule& rule, bool clear, bool keep = false);

/// Casts a matrix with one scale: out.data (any shape, e4m3 or e5m2) = cast(x·scale) and out.scale_inv (1) = 1/scale.
/// out.scaling must be Scaling::tensor. x is fp32 or bf16, with the count of out.data. scale (1) fp32 lies in memory of
/// the execution space. amax (1) i32, unless empty, becomes max(amax, amax of x). The cast rounds to nearest even and
/// saturates. Other dtypes, counts or scalings are an Error(failed).
void quantize(const tensor::Exec& exec, const tensor::Operand& out, const tensor::Tensor& amax, const tensor::Tensor& x,
              const tensor::Tensor& scale, const CastOptions& options);

/// As quantize, and writes transposed (C, R) = out.data (R, C)ᵀ as well, in the same pass where possible. Products that
/// sum over R need the transposed bytes: cuBLASLt reads FP8 operands only with the summed dimension contiguous.
/// out.data is undefined afterwards if options.transposed_alone.
void quantize_transpose(const tensor::Exec& exec, const tensor::Operand& out, const tensor::Tensor& transposed,
                        const tensor::Tensor& amax, const tensor::Tensor& x, const tensor::Tensor& scale,
                        const CastOptions& options);

/// Casts a matrix with block scales: writes out.data (R, C) and out.scale_inv, given x (R, C) fp32 or bf16.
/// out.scaling says how blocks lie; R and C must be whole blocks. Each block has the scale of its own amax.
/// 1×128 and 128×1 blocks: data e4m3 or e5m2, scale = M/amax (1 for an amax of 0, infinity or NaN) with the format's
/// largest number M = 448 or 57344, scale_inv = 1/scale fp32, data = cast(x·scale). 128×128 blocks: the same, e4m3.
/// 32-wide blocks: data e4m3, scale_inv e8m0 = amax/448 rounded up to a power of two (OCP MX with `rceil`; 2^−127 for
/// amax 0, 2^127 for infinity, NaN for NaN), data = cast(x/scale_inv). If `out` is stored transposed, which is allowed
/// for 128×1 blocks, data is written as (C, R). Another scaling is an Error(failed), and so are other dtypes and
/// counts.
void quantize_blocks(const tensor::Exec& exec, const tensor::Operand& out, const tensor::Tensor& x,
                     const CastOptions& options);
/// Casts x with blocks along rows and with blocks along columns, in one pass. row.scaling and column.scaling must be
/// row_128 and column_128, or row_32 and column_32; both have one format.
void quantize_blocks(const tensor::Exec& exec, const tensor::Operand& row, const tensor::Operand& column,
                     const tensor::Tensor& x, const CastOptions& options);

/// Casts of one matrix (R, C) with blocks along rows, with blocks along columns, or with both.
struct BlockCasts {
  tensor::Operand rowwise;     ///< Scaling::row_128; empty: not written
  tensor::Operand columnwise;  ///< Scaling::column_128, may be stored transposed; empty: not written
  bool power_of_2 = false;     ///< as CastOptions::power_of_2

  bool empty() const { return rowwise.empty() && columnwise.empty(); }
};

/// Writes the casts of x (R, C) that `out` requests, as quantize_blocks does, and adds to `counts` (null: not counted)
/// what the casts lost. One kernel writes both casts.
void cast_in_blocks(const tensor::Exec& exec, const BlockCasts& out, const tensor::Tensor& x, CastCounts* counts);

/// out (R, C) fp32 or bf16 = in.data · in.scale_inv of each element's block, rounded once. `in` is e4m3 or e5m2 with
/// any scaling but Scaling::none, and not stored transposed.
void dequantize(const tensor::Exec& exec, const tensor::Tensor& out, const tensor::Operand& in);

/// out (C, R) = in (R, C)ᵀ, for dtypes of one byte. An FP8 matrix with one scale or with 128×128 blocks can be
/// transposed so, after the cast; scale_inv is not touched.
void transpose_bytes(const tensor::Exec& exec, const tensor::Tensor& out, const tensor::Tensor& in);

/// Where an operator writes its result (R, C), and in which forms. Every part may be empty and is not written then; a
/// call must request at least one of plain, amax and quantized. The result is first rounded to the compute dtype, the
/// dtype of the operator's inputs; all forms are made from the rounded result. The forms have the same bytes as the
/// plain result followed by amax(), quantize() and transpose_bytes(). Tensors with other counts are an Error(failed).
struct Outputs {
  tensor::Tensor plain;          ///< (R, C), compute dtype: the rounded result
  tensor::Tensor amax;           ///< (1) i32: becomes max(amax, amax of the result), as bits of fp32
  tensor::Operand quantized;     ///< (R, C), Scaling::tensor: cast(result·scale); its scale_inv becomes 1/scale
  tensor::Tensor transposed;     ///< (C, R): the cast transposed; only together with `quantized`
  tensor::Tensor scale;          ///< (1) fp32, read; needed with `quantized`
  CastCounts* counts = nullptr;  ///< what the cast lost is added here; null: not counted
  /// Casts of the result with block scales, in place of `amax` and `quantized`. `plain` must be there and is undefined
  /// afterwards. Where one kernel can compute the result and cast it in one pass, `plain` is not written; elsewhere it
  /// is written, and cast by cast_in_blocks().
  BlockCasts blocks;
  /// Whether only `transposed` is needed of the cast: quantized.data is undefined afterwards, but its memory must be
  /// there.
  bool transposed_alone = false;

  Outputs() = default;
  Outputs(const tensor::Tensor& just_plain) : plain(just_plain) {}  // NOLINT: a plain output is an output
};

/// Which amaxes determine the scale: all in the history, or only the last one.
enum class AmaxOf : std::uint8_t { all, last };

/// Ends a step of delayed scaling (TransformerEngine's recipe) for n tensors at once. First amax (n) i32, the bits of
/// this step's amaxes, is copied to row `row` of history (H, n) i32 and set to 0. Then scale (n) fp32 becomes
/// max·2^−margin / a by `rule`, for the casts of the next step. AmaxOf::all: a is the largest amax, by its bits, of
/// this step and of the first `filled` rows of history. AmaxOf::last: a is the amax of this step. If a is zero,
/// infinite or NaN, the scale stays. A scale of infinity becomes FLT_MAX.
/// change (n) i32 is updated: the bits of the largest factor, up or down, by which each scale has changed since the
/// first update. The caller sets change to 0 before the first update, which sets it to the bits of 1.
/// Required are 0 ≤ row < H and 1 ≤ filled ≤ H; other values, and other counts, are an Error(failed).
void delayed_update(const tensor::Exec& exec, const tensor::Tensor& scale, const tensor::Tensor& change,
                    const tensor::Tensor& history, const tensor::Tensor& amax, std::int64_t row, std::int64_t filled,
                    AmaxOf of, const ScaleRule& rule);

}  // namespace shard8::kernels
