// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "comm/communicator.hpp"
#include "fp8/recipe.hpp"
#include "profile/report.hpp"
#include "tensor/arena.hpp"
#include "tensor/exec.hpp"

namespace shard8::fp8 {

/// All scaling state of a rank: for every matrix that is cast as a whole its amax, its scale and
/// (delayed) its history of amaxes, packed so that one reduction and one kernel serve all; and the
/// counts of what casts lost, per kind of matrix. Recipes with block scales have counts only: their
/// scales live with the data.
///
/// The life of an amax: kernels raise it; scale_of takes it for a scale now (current scaling, and the
/// first step of delayed scaling); reduce and update end a step of delayed scaling. Everything is
/// written in the order of the execution space, nothing waits for the device.
class ScalingState {
 public:
  /// State of the recipe's layers in FP8.
  ScalingState(const Recipe& recipe, tensor::Arena& arena);

  /// Scales are 1, amaxes and counts 0.
  void prepare(const tensor::Exec& exec);

  const Recipe& recipe() const { return recipe_; }

  /// (1) i32 bits and (1) fp32 of one matrix. Per-tensor recipes only.
  tensor::Tensor amax(const Site& site) const { return packed(amax_, site); }
  tensor::Tensor scale(const Site& site) const { return packed(scale_, site); }
  /// (1) fp32: 1/scale that the bytes of this weight were cast with.
  tensor::Tensor weight_scale_inv(const Site& site) const;
  /// (4·layers) i32: the amaxes of all weights.
  tensor::Tensor weight_amaxes() const;

  /// Whether this matrix is cast with the scale of its own amax rather than with one known before.
  bool scaled_by_itself(const Site& site) const;
  /// The scale of a matrix from the amax that was just found, where scaled_by_itself.
  void scale_of(const tensor::Exec& exec, const Site& site) const;
  /// The scales of all weights from their amaxes (whole: reduced over all shards of the weights).
  void scales_of_weights(const tensor::Exec& exec) const;

  /// Delayed scaling: amaxes of this step are MAX-reduced over `world`.
  void reduce(const comm::Communicator& world) const;
  /// Delayed scaling: the reduced amaxes enter the history and make the scales of the next step.
  void update(const tensor::Exec& exec);
  /// The initial weights' amaxes enter the history, before any step.
  void begin_weight_history(const tensor::Exec& exec);

  /// Where casts of such a matrix count, in memory of the execution space.
  kernels::CastCounts* counts(const Site& site) const;
  /// So many elements are cast; for two copies twice as many.
  void count_elements(const Site& site, std::int64_t elements);
  /// What casts did since the start, a row for each kind of matrix. Waits for the execution space.
  std::vector<profile::CastFigures> figures(const tensor::Exec& exec) const;

  /// What must be kept from step to step. Delayed: (3·4·layers) fp32 scales, role by role, and the
  /// (3, amax_history, 4·layers) i32 amaxes of past steps. Current: (4·layers) fp32 scales of weights. Entries are
  /// ordered by layer, then linear.
  tensor::Tensor kept_scales() const { return recipe_.delayed() ? scale_ : role_part(scale_, Role::weight); }
  const tensor::Tensor& history() const { return history_; }
  /// (3) i32 in host memory: the steps whose amaxes ever entered the history, by role.
  tensor::Tensor history_entries();

 private:
  std::int64_t index(const Site& site) const;
  std::int32_t entries(Role role) const { return entries_[static_cast<std::size_t>(role)]; }
  tensor::Tensor packed(const tensor::Tensor& all, const Site& site) const;
  tensor::Tensor role_part(const tensor::Tensor& all, Role role) const;
  void update(const tensor::Exec& exec, Role role);

  Recipe recipe_;
  std::int64_t per_role_;
  tensor::Tensor amax_, scale_, change_;  ///< (3·4·layers): role, layer, linear
  tensor::Tensor weight_scale_inv_;       ///< (4·layers)
  tensor::Tensor history_;                ///< (3, amax_history, 4·layers)
  tensor::Tensor counts_;                 ///< CastCounts of each linear and role
  std::array<std::uint64_t, kLinears * kRoles> elements_{};
  std::array<std::int32_t, kRoles> entries_{};  ///< of the history
};

}  // namespace shard8::fp8
