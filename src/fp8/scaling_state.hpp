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

/// All scaling state of a rank. Every matrix with one scale has an amax, a scale and, with delayed scaling, a history
/// of amaxes. They are packed, so that one reduction and one kernel serve all matrices. Casts are counted by linear
/// and role. Recipes with block scales have counts only; their scales lie with the data.
///
/// The life of an amax: kernels raise it. With current scaling, and in the first step of delayed scaling, scale_of()
/// makes the scale from it at once. At the end of a step of delayed scaling, reduce() and update() enter it in the
/// history. Everything is written in the order of the execution space; only figures() waits for the device.
class ScalingState {
 public:
  /// State of the recipe's layers in FP8.
  ScalingState(const Recipe& recipe, tensor::Arena& arena);

  /// Sets scales to 1 and amaxes, histories and counts to 0.
  void prepare(const tensor::Exec& exec);

  const Recipe& recipe() const { return recipe_; }

  /// The amax (1) i32, as bits of fp32, and the scale (1) fp32 of one matrix. Recipes with one scale a matrix only.
  tensor::Tensor amax(const Site& site) const { return packed(amax_, site); }
  tensor::Tensor scale(const Site& site) const { return packed(scale_, site); }
  /// (1) fp32: the inverse of the scale with which the bytes of this weight were cast.
  tensor::Tensor weight_scale_inv(const Site& site) const;
  /// (4·layers) i32: the amaxes of all weights.
  tensor::Tensor weight_amaxes() const;

  /// Whether this matrix is cast with the scale of its own amax, not with a scale known before.
  bool scaled_by_own_amax(const Site& site) const;
  /// Sets the scale of a matrix, for which scaled_by_own_amax() holds, from its amax.
  void scale_of(const tensor::Exec& exec, const Site& site) const;
  /// Sets the scales of all weights from their amaxes, which must have been reduced over all shards.
  void scales_of_weights(const tensor::Exec& exec) const;

  /// Delayed scaling: reduces the amaxes of this step over `world` by their maximum.
  void reduce(const comm::Communicator& world) const;
  /// Delayed scaling: enters the reduced amaxes in the history and sets the scales of the next step.
  void update(const tensor::Exec& exec);
  /// Enters the amaxes of the initial weights in the history, before the first step.
  void begin_weight_history(const tensor::Exec& exec);

  /// The counts of casts of this linear and role, in memory of the execution space.
  kernels::CastCounts* counts(const Site& site) const;
  /// Counts `elements` cast elements; of a matrix with two copies, each copy's.
  void count_elements(const Site& site, std::int64_t elements);
  /// What casts did since the start, a row for each linear and role. Waits for the execution space.
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
