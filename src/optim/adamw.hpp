// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

#include "deck/config.hpp"
#include "fsdp/unit_buffers.hpp"
#include "kernels/quantize.hpp"
#include "tensor/arena_set.hpp"
#include "tensor/exec.hpp"

namespace shard8::optim {

/// AdamW over the shards of all units: moments, fp32 or bf16, of the same shapes as the master shards.
class Adamw {
 public:
  /// `counted` [unit][parameter]: whose gradients this rank counts in their norm.
  Adamw(const deck::OptimizerConfig& config, const fsdp::UnitBuffers& buffers,
        const std::vector<std::vector<bool>>& counted, tensor::ArenaSet& arenas);

  /// Moments start at zero.
  void prepare(const tensor::Exec& exec) const;
  /// What is made of an updated parameter in the same pass: its amax, its FP8.
  using Outputs = std::function<kernels::Outputs(int unit, int parameter)>;
  /// Updates the master shards of a unit with its reduced gradients, scaled by gradient_scale.
  void step(const tensor::Exec& exec, int unit, std::int64_t step, double learning_rate, double gradient_scale,
            const Outputs& outputs) const;
  /// Whether gradients are scaled by something that needs the norm of all of them.
  bool clips() const { return config_.clip > 0; }

  /// total (a double as 8 bytes of u8) += the squares of the gradients that are counted, of all units, which
  /// step() has left: where nothing is clipped.
  void add_squares(const tensor::Exec& exec, const tensor::Tensor& total) const;

  /// The factor that brings a gradient of this norm down to `clip`: min(1, clip/(norm + 1e-6)); 1 when off.
  double clip_scale(double gradient_norm) const;

  /// Moments of a unit's parameters, (rows_per_shard, cols).
  const std::vector<tensor::Tensor>& first_moment(int unit) const { return first_moment_[index(unit)]; }
  const std::vector<tensor::Tensor>& second_moment(int unit) const { return second_moment_[index(unit)]; }

 private:
  static std::size_t index(int unit) { return static_cast<std::size_t>(unit); }
  void allocate_squares(const std::vector<std::vector<bool>>& counted, tensor::Arena& arena);

  deck::OptimizerConfig config_;
  const fsdp::UnitBuffers& buffers_;
  std::vector<std::vector<tensor::Tensor>> first_moment_, second_moment_;
  tensor::Tensor all_squares_;                        ///< u8: kernels::AdamwTensors::squares, one after the other
  std::vector<std::vector<tensor::Tensor>> squares_;  ///< of each parameter; empty if it is not counted
};

}  // namespace shard8::optim
