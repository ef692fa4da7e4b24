// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

#include "deck/config.hpp"
#include "fsdp/unit_buffers.hpp"
#include "kernels/quantize.hpp"
#include "operation/executor.hpp"
#include "tensor/arena.hpp"
#include "tensor/exec.hpp"

namespace shard8::optim {

/// The learning rate of step s, counted from 0: linear warm-up, then cosine decay (Loshchilov & Hutter 2017).
///   s < warmup:      lr·(s+1)/warmup
///   s < decay_steps: min_lr + (lr − min_lr)/2·(1 + cos(π(s − warmup)/(decay_steps − warmup)))
///   after:           min_lr
double learning_rate(const deck::OptimizerConfig& config, std::int64_t step);

/// AdamW for the shards of all units (Loshchilov & Hutter 2019; the formula is in kernels/adamw.hpp). The moments, fp32
/// or bf16, have the shapes of the master shards.
class Adamw {
 public:
  /// Allocates the moments. `buffers` must live longer than this object.
  Adamw(const deck::OptimizerConfig& config, const fsdp::UnitBuffers& buffers, tensor::ArenaSet& arenas);

  /// Sets the moments to zero.
  void prepare(const tensor::Exec& exec) const;
  /// What the update writes in addition to the parameter: the amax and the FP8 cast of the updated weights. `part`: one
  /// of the parameter's fsdp::WeightForms::groups.
  using Outputs = std::function<kernels::Outputs(int unit, int parameter, const fsdp::GroupRows& part)>;
  /// Updates the master shards of a unit. The gradients are the reduced gradients of the unit times gradient_scale.
  /// `step` counts from 0.
  void step(operation::Executor& executor, int unit, std::int64_t step, double learning_rate, double gradient_scale,
            const Outputs& outputs) const;
  /// Whether gradients are clipped. If they are, every update needs the norm of all gradients first.
  bool clips() const { return config_.clip > 0; }

  /// total (kernels::kExactTotalBytes of u8) += the squares of all gradients that this rank counts, before
  /// gradient_scale. Call it after step() of every unit, and only without clipping: step() computes the squares.
  void add_squares(operation::Executor& executor, const tensor::Tensor& total) const;

  /// The factor that clips gradients of this norm: min(1, clip/(norm + 1e-6)); 1 without clipping.
  double clip_scale(double gradient_norm) const;

  /// The moments of a unit, by parameter: (rows_per_shard, cols).
  const std::vector<tensor::Tensor>& first_moment(int unit) const { return first_moment_[index(unit)]; }
  const std::vector<tensor::Tensor>& second_moment(int unit) const { return second_moment_[index(unit)]; }

 private:
  static std::size_t index(int unit) { return static_cast<std::size_t>(unit); }
  void allocate_squares(tensor::Arena& arena);
  tensor::Tensor squares_of(int unit, std::size_t parameter, const fsdp::GroupRows& part) const;

  deck::OptimizerConfig config_;
  const fsdp::UnitBuffers& buffers_;
  std::vector<std::vector<tensor::Tensor>> first_moment_, second_moment_;
  tensor::Tensor all_squares_;  ///< u8: kernels::AdamwTensors::squares of all parameters
  /// By unit, the part of all_squares_ of each parameter. Empty with clipping, or if another rank counts the parameter.
  std::vector<std::vector<tensor::Tensor>> squares_;
};

}  // namespace shard8::optim
