// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "kernels/quantize.hpp"
#include "tensor/exec.hpp"
#include "tensor/tensor.hpp"

namespace shard8::kernels {

/// Scalars of one AdamW step (Loshchilov & Hutter 2019), in double; the kernel rounds to fp32.
struct AdamwScalars {
  double lr = 0, beta1 = 0.9, beta2 = 0.95, eps = 1e-8;
  double weight_decay = 0;    ///< of parameters that decay
  double gradient_scale = 1;  ///< clipping: min(1, clip/(norm + 1e-6))
  std::int64_t step = 0;      ///< from 0; bias corrections use step + 1, in double on the host
};

/// The shards of one parameter, any shape, equal counts.
struct AdamwTensors {
  /// fp32; or, with `remainder`, the upper halves as bf16 weights.
  tensor::Tensor master;
  /// Empty, or i16: the fp32 master is (bits(master) << 16) + remainder, see kernels/master.hpp.
  tensor::Tensor remainder;
  tensor::Tensor m, v;  ///< fp32 or bf16 (computed in fp32, rounded to nearest even)
  tensor::Tensor g;     ///< fp32
  /// Empty, or for adamw_square_parts() doubles, as u8: the sums of the squares of stretches of g, not scaled.
  tensor::Tensor squares = {};
};

/// How many sums a parameter of `count` elements leaves.
std::int64_t adamw_square_parts(std::int64_t count);
/// total, a double as 8 bytes of u8, += the sums of any parameters, in their order.
void add_square_parts(const tensor::Exec& exec, const tensor::Tensor& total, const tensor::Tensor& parts);

/// A shard, and what is to be left of its weights once they are updated.
struct AdamwUpdate {
  AdamwTensors tensors;
  Outputs weights = {};
  bool decays = true;  ///< not parameters of one dimension
};

/// How many one kernel of a device updates at most.
inline constexpr std::size_t kAdamwAtOnce = 16;

/// One pass over a shard: m ← β1·m + (1−β1)·g, v ← β2·v + (1−β2)·g²,
/// p ← p·(1 − lr·wd) − lr·m̂/(√v̂ + eps), g the scaled gradient, all in fp32 without contraction to
/// FMA. If `weights.amax` is not empty it becomes max(amax, that of the updated weights); if
/// `weights.quantized` is not empty it is their cast with weights.scale, 1/scale beside it. The
/// weights are bf16(p) if `through_bf16` (always with a remainder: the bf16 halves), else p;
/// weights.plain is not used.
void adamw_step(const tensor::Exec& exec, const AdamwTensors& tensors, const AdamwScalars& scalars,
                const Outputs& weights = {}, bool through_bf16 = false);
/// The same of each, as one after the other; on a device by one kernel for as many that follow each other, have the
/// same types and leave the same of their weights, or nothing.
void adamw_step_each(const tensor::Exec& exec, std::span<const AdamwUpdate> updates, const AdamwScalars& scalars,
                     bool through_bf16);

}  // namespace shard8::kernels
