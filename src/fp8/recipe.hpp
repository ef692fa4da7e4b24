// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "deck/config.hpp"
#include "kernels/quantize.hpp"
#include "tensor/exec.hpp"
#include "tensor/operand.hpp"

namespace shard8::fp8 {

/// The four linears of a layer, and what each of their products reads.
enum class Linear : std::uint8_t { qkv, proj, fc1, fc2 };
enum class Role : std::uint8_t { input, weight, output_gradient };
inline constexpr int kLinears = 4, kRoles = 3;

/// One kind of matrix of a layer: its scaling state and its counts go by it.
struct Site {
  int layer = -1;  ///< among the layers in FP8; -1: this linear stays in the compute type
  Linear linear = Linear::qkv;
  Role role = Role::input;

  bool on() const { return layer >= 0; }
  Site with(Role other) const { return {layer, linear, other}; }
};

/// "qkv input", "fc2 output gradient".
std::string name_of(Linear linear, Role role);

/// What a deck's fp8 group comes to: formats and scalings of every matrix of a linear.
///
/// A product sums along rows of one copy of a matrix (input and weight in the forward product, the
/// output gradient in dgrad) and along columns of another (weight in dgrad, input and output
/// gradient in wgrad). Where a scaling serves both ways they are one.
struct Recipe {
  deck::Recipe kind = deck::Recipe::none;
  tensor::DType forward = tensor::DType::e4m3;   ///< of weights and inputs
  tensor::DType gradient = tensor::DType::e4m3;  ///< of output gradients
  std::int64_t amax_history = 1;                 ///< steps (delayed)
  deck::AmaxAlgo amax_algo = deck::AmaxAlgo::max;
  int margin = 0;
  bool power_of_2 = false;
  /// The multiplier reads only what is contiguous along the sum: where one scale serves both ways, the
  /// copy by columns is the same bytes transposed.
  bool transposes = tensor::kDevice;
  /// Masters are rounded to bf16 before the cast, as they would travel: with compute bf16.
  bool through_bf16 = true;

  std::int64_t first_layer = 0, layers = 0;  ///< the layers in FP8

  static Recipe make(const deck::Config& config);

  bool on() const { return kind != deck::Recipe::none; }
  /// The site of a linear's input in a layer of the model; off where the layer is not in FP8.
  Site site(std::int64_t layer, Linear linear) const;
  bool delayed() const { return kind == deck::Recipe::delayed; }
  /// One scale for a whole matrix (delayed, current); else blocks.
  bool per_tensor() const { return kind == deck::Recipe::delayed || kind == deck::Recipe::current; }
  /// No unit multiplies it: products are computed from values decoded to bf16.
  bool emulated() const { return kind == deck::Recipe::mxfp8; }

  tensor::DType dtype(Role role) const { return role == Role::output_gradient ? gradient : forward; }
  tensor::Scaling by_rows(Role role) const;
  tensor::Scaling by_columns(Role role) const;
  bool two_copies(Role role) const { return by_rows(role) != by_columns(role); }
  /// Whether a cast input or gradient is left transposed, too. What is gathered over the tensor group
  /// is not: its parts would not be one matrix.
  bool transposed(bool gathered) const { return transposes && per_tensor() && !gathered; }
  /// Rows at whose multiples a weight may be cut over ranks: those of a block.
  std::int64_t granularity() const;
  /// How the scale of a whole matrix is made.
  kernels::ScaleRule rule(Role role) const;
  kernels::CastOptions cast_options(kernels::CastCounts* counts) const;
};

}  // namespace shard8::fp8
