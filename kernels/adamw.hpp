// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "base/exact_sum.hpp"
#include "kernels/quantize.hpp"
#include "tensor/runtime.hpp"
#include "tensor/tensor.hpp"

namespace shard8::kernels {

/// Scalars of one AdamW step (Loshchilov & Hutter 2019), in double. Factors derived from them are rounded to fp32 on
/// the host.
struct AdamwScalars {
  double lr = 0, beta1 = 0.9, beta2 = 0.95, eps = 1e-8;
  double weight_decay = 0;    ///< wd; applied to updates with AdamwUpdate::decays
  double gradient_scale = 1;  ///< multiplies g; for clipping min(1, clip/(norm + 1e-6))
  std::int64_t step = 0;      ///< from 0. Bias corrections use step + 1 and are computed in double on the host.
};

/// The shards of one parameter: tensors of any shape with equal counts. A step reads g and overwrites the others.
struct AdamwTensors {
  /// fp32, or bf16: then it holds the rounded upper halves of an fp32 master, and `remainder` the rest.
  tensor::Tensor master;
  /// Empty if master is fp32. i16 if master is bf16: the bits of the fp32 master are (bits(master) << 16) + remainder,
  /// see split_master(). Any other combination is an Error(failed).
  tensor::Tensor remainder;
  tensor::Tensor m, v;  ///< first and second moments, both fp32 or both bf16; computed in fp32, rounded to nearest even
  tensor::Tensor g;     ///< fp32: the gradient
  /// Empty, or u8 memory of square_segments() doubles for the rows and columns of g. The step overwrites them with the
  /// sums of squares of g's segments (see square_segments()), before g is multiplied by gradient_scale.
  tensor::Tensor squares = {};
};

/// The update of one shard. `weights` requests an amax or a cast of the updated weights; empty: neither.
struct AdamwUpdate {
  AdamwTensors tensors;
  Outputs weights = {};
  bool decays = true;  ///< whether weight_decay applies; false for parameters of one dimension
};

/// The largest number of shards that one kernel updates on a device. On hosts each shard has a kernel of its own.
inline constexpr std::size_t kAdamwAtOnce = 16;

/// Updates one shard in one pass: m ← β1·m + (1−β1)·g, v ← β2·v + (1−β2)·g², p ← p·(1 − lr·wd) − lr·m̂/(√v̂ + eps). p
/// is the master, g the gradient times gradient_scale. All of these operations are fp32 without contraction to FMA; the
/// bias corrections of m̂ and v̂ are computed in double. Weight decay is always applied: set weight_decay to 0 for a
/// parameter that does not decay.
/// The updated weights are p, or bf16(p) if `through_bf16`. With a remainder they are always the bf16 halves. If
/// `weights.amax` is not empty, it becomes max(amax, amax of the updated weights). If `weights.quantized` is not empty,
/// it becomes their cast with weights.scale, its scale_inv becomes 1/scale, and `weights.transposed`, if not empty,
/// becomes the transposed cast. `weights.counts`, unless null, is added to. `weights.plain` is not used.
/// A tensor with another dtype or count than stated is an Error(failed).
void adamw_step(const tensor::Exec& exec, const AdamwTensors& tensors, const AdamwScalars& scalars,
                const Outputs& weights = {}, bool through_bf16 = false);
/// Runs adamw_step for each update, with AdamwUpdate::decays. The results are the bits that separate calls give. On a
/// device one kernel runs up to kAdamwAtOnce consecutive updates. Updates of one kernel must have equal types, and
/// updates that request a cast or an amax of their weights must request the same form; an update that requests neither
/// fits any form. Otherwise the next kernel begins.
void adamw_step_each(const tensor::Exec& exec, std::span<const AdamwUpdate> updates, const AdamwScalars& scalars,
                     bool through_bf16);

/// Splits an fp32 master, of any shape, into a bf16 weight and an i16 remainder of the same count, without loss. weight
/// is the upper half of bits(master) + 2^15: master rounded to nearest, ties away from zero. So the weight equals the
/// rounding to nearest even but for exact ties. remainder = bits(master) − (bits(weight) << 16), between −2^15 and 2^15
/// − 1. A NaN becomes a quiet NaN with remainder 0. Other counts or dtypes are an Error(failed).
void split_master(const tensor::Exec& exec, const tensor::Tensor& weight, const tensor::Tensor& remainder,
                  const tensor::Tensor& master);
/// Joins weight and remainder of split_master() to the fp32 master, bit for bit. A NaN stays NaN, but its payload may
/// differ from the first one.
void join_master(const tensor::Exec& exec, const tensor::Tensor& master, const tensor::Tensor& weight,
                 const tensor::Tensor& remainder);

}  // namespace shard8::kernels

/// Sums of squares that do not depend on how rows are cut over ranks. Each row is cut into segments of kSquareSegment
/// elements; the last segment of a row may be shorter. The squares of a segment are added in an order that differs
/// between hosts and devices, in double where nothing else is said; it depends on the segment's length alone. Segments
/// are added without rounding (base::ExactSum), so the order of rows, threads, parameters and ranks changes no bit.
namespace shard8::kernels {

inline constexpr std::int64_t kSquareSegment = 1024;

/// Bytes of a total, the words of a base::ExactSum, as u8.
inline constexpr std::int64_t kExactTotalBytes = sizeof(base::ExactSum);

/// total += Σ x², for x (R, C) fp32. total is kExactTotalBytes of u8; the caller clears it first. At most
/// base::ExactSum::kMostTerms segments may be added to a total. Other bytes of total, or more segments in one call, are
/// an Error(failed).
void sum_of_squares(const tensor::Exec& exec, const tensor::Tensor& total, const tensor::Tensor& x);

/// total += Σ (x·scale_inv)² over a matrix x (R, C) in e4m3 or e5m2. With Scaling::tensor, scale_inv may be the scales
/// of several matrices of `rows_of_scale` rows each, of which x is a part: row r of x then has scale (first_row + r) /
/// rows_of_scale, and rows behind the last matrix, which are padding, have the last scale. rows_of_scale 0: one scale.
/// With other scalings both numbers are ignored. A whole row is a segment; devices add the squares of 16 neighbours that
/// share a scale in fp32.
/// total and limits as in sum_of_squares(); a plain or a transposed matrix, a second level of scales, or scales of
/// another shape are an Error(failed).
void sum_of_scaled_squares(const tensor::Exec& exec, const tensor::Tensor& total, const tensor::Operand& x,
                           std::int64_t rows_of_scale = 0, std::int64_t first_row = 0);

/// How many segments a matrix (R, C) has.
constexpr std::int64_t square_segments(std::int64_t rows, std::int64_t cols) {
  return rows * ((cols + kSquareSegment - 1) / kSquareSegment);
}
/// parts[s] = Σ x² over segment s of x (R, C) fp32; segments are numbered along the first row, then along the second,
/// and so on. parts is u8 memory of square_segments(R, C) doubles; another size is an Error(failed).
void square_parts(const tensor::Exec& exec, const tensor::Tensor& parts, const tensor::Tensor& x);
/// total += the sum of all `parts`, u8 memory of any number of doubles. total and limits as in sum_of_squares().
void add_square_parts(const tensor::Exec& exec, const tensor::Tensor& total, const tensor::Tensor& parts);

}  // namespace shard8::kernels
