// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

#include "deck/config.hpp"
#include "fsdp/unit_buffers.hpp"
#include "kernels/quantize.hpp"
#include "tensor/exec.hpp"

namespace shard8::optim {

/// AdamW over the shards of all units: moments, fp32 or bf16, of the same shapes as the master shards.
class Adamw {
 public:
  Adamw(const deck::OptimizerConfig& config, const fsdp::UnitBuffers& buffers, tensor::ArenaSet& arenas);

  /// Moments start at zero.
  void prepare(const tensor::Exec& exec) const;
  /// What is made of an updated parameter in the same pass: its amax, its FP8.
  using Outputs = std::function<kernels::Outputs(int unit, int parameter)>;
  /// Updates the master shards of a unit with its reduced gradients, scaled by gradient_scale.
  void step(const tensor::Exec& exec, int unit, std::int64_t step, double learning_rate, double gradient_scale,
            const Outputs& outputs) const;
  /// Whether gradients are scaled by something that needs the norm of all of them.
  bool clips() const { return config_.clip > 0; }

  /// The factor that brings a gradient of this norm down to `clip`: min(1, clip/(norm + 1e-6)); 1 when off.
  double clip_scale(double gradient_norm) const;

 private:
  deck::OptimizerConfig config_;
  const fsdp::UnitBuffers& buffers_;
  std::vector<std::vector<tensor::Tensor>> first_moment_, second_moment_;
};

}  // namespace shard8::optim
