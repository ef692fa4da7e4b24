// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "deck/config.hpp"
#include "deck/device.hpp"
#include "kernels/quantize.hpp"
#include "operation/operation.hpp"
#include "tensor/operand.hpp"

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
  /// Of a weight of experts, fc1 or fc2: the number among all experts of the layer. Each expert's weight has a scale of
  /// its own. −1: the weight of a linear without experts, or the input or output gradient of any linear.
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

}  // namespace shard8::fp8
