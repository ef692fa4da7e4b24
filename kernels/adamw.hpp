// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "kernels/quantize.hpp"
#include "tensor/exec.hpp"
#include "tensor/tensor.hpp"

namespace shard8::kernels {

/// Scalars of one AdamW step (Loshchilov & Hutter 2019), in double. The kernel rounds them to fp32.
struct AdamwScalars {
  double lr = 0, beta1 = 0.9, beta2 = 0.95, eps = 1e-8;
  double weight_decay = 0;    ///< for parameters that decay
  double gradient_scale = 1;  ///< clipping: min(1, clip/(norm + 1e-6))
  std::int64_t step = 0;      ///< from 0. Bias corrections use step + 1 and are computed in double on the host.
};

/// The shards of one parameter: tensors of any shape with equal counts.
struct AdamwTensors {
  /// fp32; with a `remainder`, the upper halves as bf16 weights.
  tensor::Tensor master;
  /// Empty, or i16: the fp32 master is (bits(master) << 16) + remainder, see kernels/master.hpp.
  tensor::Tensor remainder;
  tensor::Tensor m, v;  ///< fp32 or bf16 (computed in fp32, rounded to nearest even)
  tensor::Tensor g;     ///< fp32
  /// Empty, or u8 memory for adamw_square_parts() doubles, which the step overwrites: the sums of squares of stretches
  /// of g, before gradient_scale.
  tensor::Tensor squares = {};
};

/// How many doubles AdamwTensors::squares has for a parameter of `count` elements.
std::int64_t adamw_square_parts(std::int64_t count);
/// total += all sums in `parts`, in their order. total is one double as 8 bytes of u8; parts is AdamwTensors::squares
/// of any number of parameters, one after the other.
void add_square_parts(const tensor::Exec& exec, const tensor::Tensor& total, const tensor::Tensor& parts);

/// The update of one shard. `weights` asks for an amax or a cast of the updated weights.
struct AdamwUpdate {
  AdamwTensors tensors;
  Outputs weights = {};
  bool decays = true;  ///< false for parameters of one dimension
};

/// How many shards one kernel updates at most, on a device.
inline constexpr std::size_t kAdamwAtOnce = 16;

/// One pass over a shard: m ← β1·m + (1−β1)·g, v ← β2·v + (1−β2)·g²,
/// p ← p·(1 − lr·wd) − lr·m̂/(√v̂ + eps), g the scaled gradient, all in fp32 without contraction to
/// FMA. The updated weights are p, or bf16(p) if `through_bf16`; with a remainder they are always the bf16 halves. If
/// `weights.amax` is not empty, it becomes max(amax, amax of the updated weights). If `weights.quantized` is not empty,
/// it becomes their cast with weights.scale, and its scale_inv 1/scale. weights.plain is not used.
void adamw_step(const tensor::Exec& exec, const AdamwTensors& tensors, const AdamwScalars& scalars,
                const Outputs& weights = {}, bool through_bf16 = false);
/// Runs adamw_step for each update, with the same results as one after the other. On a device one kernel runs up to
/// kAdamwAtOnce consecutive updates whose types are equal and whose weights are written in the same way or not at all.
void adamw_step_each(const tensor::Exec& exec, std::span<const AdamwUpdate> updates, const AdamwScalars& scalars,
                     bool through_bf16);

}  // namespace shard8::kernels
