// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "deck/choices.hpp"
#include "deck/config.hpp"
#include "kernels/quantize.hpp"
#include "operation/executor.hpp"
#include "operation/operation.hpp"
#include "profile/report.hpp"
#include "tensor/arena.hpp"
#include "tensor/operand.hpp"
#include "tensor/runtime.hpp"

namespace shard8::fp8 {

using operation::kLinears;
using operation::Linear;

/// The three matrices that each linear layer casts.
enum class Role : std::uint8_t { input, weight, output_gradient };
inline constexpr int kRoles = 3;

/// One matrix of a transformer layer: the key of its scaling state. Casts are counted by linear and role, over all
/// layers.
struct Site {
  int layer = -1;  ///< number among the layers in FP8, from 0; −1: this layer stays in the compute dtype
  Linear linear = Linear::qkv;
  Role role = Role::input;
  /// The number of the expert among all experts of the layer, for a weight of experts (fc1 or fc2). Each expert's
  /// weight has a scale of its own. −1: the weight of a linear without experts, or the input or output gradient of any
  /// linear.
  std::int64_t expert = -1;

  /// Whether the matrix is cast to FP8.
  bool on() const { return layer >= 0; }
  /// The matrix of the same linear with another role.
  Site with(Role other) const { return {layer, linear, other}; }
  /// The weight of this expert.
  Site of_expert(std::int64_t number) const { return {layer, linear, Role::weight, number}; }
};

/// "qkv input", "fc2 output gradient".
std::string name_of(Linear linear, Role role);

/// The formats and scalings of every matrix of a linear layer, as the deck's fp8 group chooses them.
///
/// The forward product sums along the rows of input and weight. dgrad sums along the rows of the output gradient and
/// the columns of the weight. wgrad sums along the columns of input and output gradient. A matrix has one copy if its
/// scaling serves rows and columns, else one copy for each.
struct Recipe {
  deck::Recipe kind = deck::Recipe::none;
  tensor::DType forward = tensor::DType::e4m3;   ///< of weights and inputs
  tensor::DType gradient = tensor::DType::e4m3;  ///< of output gradients
  std::int64_t amax_history = 1;                 ///< delayed: how many steps the history of amaxes has
  deck::AmaxAlgo amax_algo = deck::AmaxAlgo::max;
  int margin = 0;           ///< delayed: scales are divided by 2^margin
  bool power_of_2 = false;  ///< scales are floored to powers of two
  /// Whether what products read along columns is stored transposed. Products on a device read FP8 matrices only with
  /// the summed dimension contiguous.
  bool transposes = deck::on_device({});
  /// Whether masters are rounded to bf16 before the cast, as a gather in bf16 would do. Set with compute bf16.
  bool through_bf16 = true;

  std::int64_t first_layer = 0, layers = 0;  ///< the first layer in FP8, and how many there are
  std::int64_t experts = 0;                  ///< of a layer with experts; 0: no layer in FP8 has experts
  std::int64_t dense_layers = 0;             ///< the first layers in FP8, which have no experts; read if others have

  /// The recipe of a deck. A deck without a recipe gives the members' defaults.
  static Recipe make(const deck::Config& config);

  bool on() const { return kind != deck::Recipe::none; }
  /// The site of a linear's input; `layer` counts all layers of the model from 0. Site::on() is false if the layer is
  /// not in FP8.
  Site site(std::int64_t layer, Linear linear) const;
  bool delayed() const { return kind == deck::Recipe::delayed; }
  /// Whether a matrix has one scale (delayed, current), not one for each block.
  bool per_tensor() const { return kind == deck::Recipe::delayed || kind == deck::Recipe::current; }
  /// Whether products decode the values to bf16: neither hosts nor Hopper GPUs multiply mxfp8.
  bool emulated() const { return kind == deck::Recipe::mxfp8; }

  tensor::DType dtype(Role role) const { return role == Role::output_gradient ? gradient : forward; }
  /// The scaling of the copy that products read rowwise (along rows), and of the copy that they read columnwise.
  tensor::Scaling rowwise(Role role) const;
  tensor::Scaling columnwise(Role role) const;
  bool two_copies(Role role) const { return rowwise(role) != columnwise(role); }
  /// Whether the cast of an input or output gradient that products read columnwise is written transposed. `gathered`:
  /// the tensor group gathers the matrix. One scale a matrix: in backward only wgrad reads a gathered input, so its
  /// transposed parts are gathered. A gathered output gradient is read by dgrad, too: it is gathered once, as it is,
  /// and wgrad makes the transposed copy. Blocks of 128: a matrix that is gathered is not transposed, because its
  /// scales are gathered with it. Blocks of 32 are decoded as they lie.
  bool transposed(Role role, bool gathered) const {
    const bool blocks = kind == deck::Recipe::block;
    return transposes && (per_tensor() || blocks) && (!gathered || (!blocks && role == Role::input));
  }
  /// Whether the kernel that computes a matrix also casts it in blocks of 128. (On hosts it would compute the matrix
  /// twice: for the scales of its blocks, and for the cast.)
  bool blocks_at_once() const { return transposes && kind == deck::Recipe::block; }
  /// The number of rows at whose multiples a weight may be cut over ranks: the rows of a block, 1 without blocks.
  std::int64_t granularity() const;
  /// The number of which the tokens and widths of products must be multiples, so that blocks are whole and products on
  /// devices are aligned: 16 with one scale a matrix, 32 with mxfp8, 128 with block, 1 without a recipe.
  std::int64_t multiple() const;
  /// Layers in FP8 with experts, and those with a feed-forward block.
  std::int64_t expert_layers() const { return experts > 0 ? layers - dense_layers : 0; }
  std::int64_t ffn_layers() const { return layers - expert_layers(); }
  /// The formula of the scale of a matrix with one scale.
  kernels::ScaleRule rule(Role role) const;
  /// The options of every cast; `counts` may be null.
  kernels::CastOptions cast_options(kernels::CastCounts* counts) const;
};

/// All scaling state of a rank. Every matrix with one scale has an amax, a scale and, with delayed scaling, a history
/// of amaxes. The weight of each expert of the whole model has them, too, also of the experts that other ranks hold:
/// the amaxes of such weights are 0 until they are reduced. The values of all matrices are packed, so that one
/// reduction and one kernel serve them all. Casts are counted by linear and role. Recipes with block scales have counts
/// only; their scales are stored with the data.
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

  /// While the object lives, casts have the scales that they would have in a step, and leave the state as it is: amaxes
  /// and scales of a matrix' own amax go to memory that nothing else reads, nothing is counted, and functions that end
  /// a step are errors. Whoever casts through the state need not know. A state has one such object at a time, which it
  /// must outlive.
  class Unrecorded {
   public:
    /// Error(failed) unless the state was made for Unrecorded casts.
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
  /// Sets the scale of one matrix from its amax, which must be complete, and reduced where ranks share the scale. To be
  /// called only where scaled_by_own_amax() holds. With current scaling the amax becomes 0 afterwards. If `keep`, an
  /// amax of 0 changes nothing.
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
