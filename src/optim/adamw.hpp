// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/exact_sum.hpp"
#include "comm/communicator.hpp"
#include "deck/config.hpp"
#include "fsdp/unit_buffers.hpp"
#include "kernels/quantize.hpp"
#include "operation/executor.hpp"
#include "tensor/arena.hpp"
#include "tensor/runtime.hpp"

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

  /// Adds the squares of the gradients that this rank counts, before gradient_scale, to `totals`: those of unit u to
  /// the exact sum in row u of (units, kernels::kExactTotalBytes) u8. Call it after step() of every unit, and only
  /// without clipping: step() computes the squares.
  void add_squares(operation::Executor& executor, const tensor::Tensor& totals) const;

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
  /// By unit, u8: kernels::AdamwTensors::squares of all its parameters.
  std::vector<tensor::Tensor> unit_squares_;
  /// By unit, the part of unit_squares_ of each parameter. Empty with clipping, or if another rank counts the
  /// parameter.
  std::vector<std::vector<tensor::Tensor>> squares_;
};

/// The gradient shards of all parameters of which ranks of base::kSameSequences hold copies.
std::vector<tensor::Tensor> replicated_gradients(const fsdp::UnitBuffers& buffers);
/// Sums `gradients` over the group of base::kSameSequences, in place and in one call. Each rank has the gradients of
/// its own tokens.
void sum_replicated_gradients(operation::Executor& executor, std::span<const tensor::Tensor> gradients,
                              const comm::Communicator& group);

/// Which parameters of a unit add_squares() counts. `in_parts`: parameters that are cut over the ranks of
/// base::kSameSequences. `shared`: parameters of which these ranks hold copies.
enum class Held : std::uint8_t { in_parts, shared };
/// Adds the squares of the unit's reduced gradients that `which` selects and this rank counts
/// (fsdp::UnitBuffers::counts) to the exact sum in row `unit` of totals (units, kernels::kExactTotalBytes) u8.
void add_squares(operation::Executor& executor, const tensor::Tensor& totals, const fsdp::UnitBuffers& buffers,
                 int unit, Held which);

/// The 2-norms of a step: of each unit's reduced gradients, of all gradients, and of each unit's weights in FP8. They
/// are square roots of sums that are rounded once, at their end, so they do not depend on how rows are cut over ranks.
class StepNorms {
 public:
  /// `weights`: whether weights are summed as well.
  StepNorms(std::size_t units, bool weights)
      : units_(units), sums_(weights ? 2 * units : units), norms_(sums_.size()) {}

  /// Sums the rows of totals (units, kernels::kExactTotalBytes) u8, with weights (2·units, ...) whose second half is of
  /// the weights, over `model_group`, whose ranks count every parameter once, in one call. Returns the norm of all
  /// gradients, the same on every rank; 0 in a skeleton. The wait is in phase reduce_wait. Takes no memory.
  double sum(operation::Executor& executor, const tensor::Tensor& totals, const comm::Communicator& model_group);
  /// The norm of each unit's gradients that the last sum() found, by unit. A unit without parameters has 0.
  std::span<const double> of_gradients() const { return std::span(norms_).first(units_); }
  /// The same of the weights; empty if they are not summed.
  std::span<const double> of_weights() const { return std::span(norms_).subspan(units_); }

 private:
  std::size_t units_;
  std::vector<base::ExactSum> sums_;
  std::vector<double> norms_;
};

}  // namespace shard8::optim
