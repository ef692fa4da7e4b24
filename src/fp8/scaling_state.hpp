// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "fp8/recipe.hpp"
#include "operation/executor.hpp"
#include "profile/report.hpp"
#include "tensor/arena.hpp"
#include "tensor/exec.hpp"

namespace shard8::fp8 {

/// All scaling state of a rank. Every matrix with one scale has an amax, a scale and, with delayed scaling, a history
/// of amaxes. So has the weight of each expert of the whole model, also of those that other ranks hold: the amaxes of
/// their weights are 0 until they are reduced. The values of all matrices are packed, so that one reduction and one
/// kernel serve them all. Casts are counted by linear and role. Recipes with block scales have counts only; their
/// scales are stored beside the data.
///
/// The life of an amax: kernels that compute or cast the matrix raise it. With current scaling, and in the first step
/// of delayed scaling, scale_of() sets the scale from it at once. At the end of a step of delayed scaling reduce() and
/// update() enter it in the history. All work of a step is issued through the executor that is passed in;
/// only figures() waits for the device.
class ScalingState {
 public:
  /// Takes memory for the recipe's layers in FP8 from `arena`. prepare() must be called before anything else.
  /// `unrecorded`: there will be Unrecorded casts, which need memory of their own.
  ScalingState(const Recipe& recipe, tensor::Arena& arena, bool unrecorded = false);

  /// Sets scales and inverse scales to 1, and amaxes, histories and counts to 0.
  void prepare(const tensor::Exec& exec);

  const Recipe& recipe() const { return recipe_; }

  /// While it lives, casts have the scales that they would have in a step, and leave the state as it is: amaxes and
  /// scales of a matrix' own amax go to memory that nothing else reads, nothing is counted, and functions that end a
  /// step are errors. Whoever casts through the state need not know. One at a time; the state must outlive it.
  class Unrecorded {
   public:
    /// Error(failed) unless the state was made for it.
    explicit Unrecorded(ScalingState& state);
    ~Unrecorded() { state_.recording_ = true; }
    Unrecorded(const Unrecorded&) = delete;
    Unrecorded& operator=(const Unrecorded&) = delete;

   private:
    ScalingState& state_;
  };
  /// Whether no Unrecorded lives.
  bool recording() const { return recording_; }

  /// The amax (1) i32, as bits of fp32, and the scale (1) fp32 of one matrix. Error(failed) for recipes with block
  /// scales, and for a layer that is not in FP8.
  tensor::Tensor amax(const Site& site) const { return recording_ ? packed(amax_, site) : own_.amax; }
  tensor::Tensor scale(const Site& site) const {
    const bool own = !recording_ && site.role != Role::weight && scaled_by_own_amax(site);
    return own ? own_.scale : packed(scale_, site);
  }
  /// (1) fp32: the inverse of the scale with which the bytes of this weight were cast. Casts of the weight write it.
  tensor::Tensor weight_scale_inv(const Site& site) const;
  /// (experts) fp32: weight_scale_inv() of the weights of a layer's experts. `site`: of any of them.
  tensor::Tensor expert_scale_invs(const Site& site) const;
  /// Writes expert_scale_invs() from the scales that the weights of these experts have now. A rank casts no part of the
  /// experts that other ranks hold, and of its own possibly only some.
  void invert_expert_scales(operation::Executor& executor, const Site& site) const;
  /// (weights) i32: the amaxes of all weights: those of linears, ordered by layer, then linear, then those of experts,
  /// ordered by layer, then fc1 and fc2, then expert. The caller reduces them over all shards.
  tensor::Tensor weight_amaxes() const;

  /// Whether this matrix is cast with the scale of its own amax. Otherwise the scale is known before. True with current
  /// scaling; with delayed scaling only for inputs and output gradients in the first step.
  bool scaled_by_own_amax(const Site& site) const;
  /// Sets the scale of one matrix from its amax, which must be complete, and reduced where ranks share the scale. Only
  /// where scaled_by_own_amax() holds. With current scaling the amax becomes 0 afterwards. If `keep`, an amax of 0
  /// changes nothing.
  void scale_of(operation::Executor& executor, const Site& site, bool keep = false) const;
  /// Sets the scales of all weights from their amaxes, which must have been reduced over all shards. With current
  /// scaling the amaxes become 0 afterwards.
  void scales_of_weights(operation::Executor& executor) const;

  /// Reduces the amaxes of this step over `world` by their maximum, and waits for the result. All ranks of `world` must
  /// call together. Does nothing unless scaling is delayed.
  void reduce(operation::Executor& executor, const comm::Communicator& world) const;
  /// Ends a step: enters the reduced amaxes in the history, sets them to 0, and sets the scales of the next step. Does
  /// nothing unless scaling is delayed.
  void update(operation::Executor& executor);
  /// Enters the amaxes of the initial weights, which must have been reduced, in the history, and sets the weights'
  /// scales. Called once, before the first step. Does nothing unless scaling is delayed.
  void begin_weight_history(operation::Executor& executor);

  /// The counts of casts of this linear and role, over all layers, in memory of the execution space; null while nothing
  /// is recorded.
  kernels::CastCounts* counts(const Site& site) const;
  /// Counts `elements` more cast elements. A cast that writes two copies of a matrix counts the elements of both. What
  /// kernels count (kernels::CastCounts::elements) is added to it.
  void count_elements(const Site& site, std::int64_t elements);
  /// What casts did since prepare(): one row for each linear and role, none without a recipe. Waits for the execution
  /// space.
  std::vector<profile::CastFigures> figures(const tensor::Exec& exec) const;

  /// How many matrices of a role have a scale: 4 a layer, and for weights 2 more for each expert of each layer.
  std::int64_t matrices(Role role) const { return role == Role::weight ? per_role_ + of_experts_ : per_role_; }
  /// The place of a matrix among those of its role, in the order of weight_amaxes(). Error(failed) as for amax().
  std::int64_t index(const Site& site) const;
  /// What a checkpoint must keep. With delayed scaling: kept_scales() are fp32, ordered by role, then by index(), and
  /// history() is for each role (amax_history, matrices(role)) i32, the amaxes of past steps, one role behind the
  /// other. With current scaling kept_scales() are the scales of weights, and history() is empty.
  tensor::Tensor kept_scales() const { return recipe_.delayed() ? scale_ : role_part(scale_, Role::weight); }
  const tensor::Tensor& history() const { return history_; }
  /// (3) i32 in host memory, by role: how many steps have entered amaxes in the history since training began. A view of
  /// the state, which a restart overwrites.
  tensor::Tensor history_entries();
  /// What is wrong with entries (3) that were read, after `steps` steps; empty if nothing is. Recipes that begin anew
  /// have fewer entries than steps.
  static std::string problem_of_entries(std::span<const std::int32_t> entries, std::int64_t steps);
  /// What is wrong with this state's entries after `steps` steps; empty if nothing is.
  std::string problem_of_entries(std::int64_t steps) const {
    return recipe_.delayed() ? problem_of_entries(entries_, steps) : std::string();
  }

 private:
  std::int64_t first_of(Role role) const {
    return static_cast<std::int64_t>(role) * per_role_ + (role == Role::output_gradient ? of_experts_ : 0);
  }
  void require_recording() const;
  std::int32_t entries(Role role) const { return entries_[static_cast<std::size_t>(role)]; }
  tensor::Tensor packed(const tensor::Tensor& all, const Site& site) const;
  tensor::Tensor role_part(const tensor::Tensor& all, Role role) const;
  void update(operation::Executor& executor, Role role);
  void scale_of(operation::Executor& executor, const tensor::Tensor& scale, const tensor::Tensor& change,
                const tensor::Tensor& amax, Role role, bool keep = false) const;

  Recipe recipe_;
  std::int64_t per_role_;                 ///< 4·layers: matrices of a role, without experts
  std::int64_t of_experts_;               ///< weights of experts
  tensor::Tensor amax_, scale_, change_;  ///< by role, then by index()
  struct {
    tensor::Tensor amax, scale, change;  ///< (1): of the unrecorded cast under way; empty unless there will be some
  } own_;
  bool recording_ = true;
  bool unrecorded_;
  tensor::Tensor weight_scale_inv_;  ///< of linears, each at a multiple of 16 bytes
  tensor::Tensor expert_scale_inv_;  ///< of experts, in the order of index()
  tensor::Tensor history_;           ///< by role (amax_history, matrices(role))
  tensor::Tensor counts_;            ///< CastCounts of each linear and role
  std::array<std::uint64_t, kLinears * kRoles> elements_{};
  std::array<std::int32_t, kRoles> entries_{};  ///< how many steps have entered the history, by role
};

}  // namespace shard8::fp8
