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

/// One matrix of a layer. Scaling state is looked up by it; casts are counted by linear and role.
struct Site {
  int layer = -1;  ///< counted among the layers in FP8; -1: this linear stays in the compute type
  Linear linear = Linear::qkv;
  Role role = Role::input;

  bool on() const { return layer >= 0; }
  Site with(Role other) const { return {layer, linear, other}; }
};

/// "qkv input", "fc2 output gradient".
std::string name_of(Linear linear, Role role);

/// The formats and scalings of every matrix of a linear, as the deck's fp8 group chooses them.
///
/// The forward product sums along the rows of input and weight; dgrad along the rows of the output gradient and the
/// columns of the weight; wgrad along the columns of input and output gradient. A matrix has one copy if its scaling
/// serves rows and columns, else one for each.
struct Recipe {
  deck::Recipe kind = deck::Recipe::none;
  tensor::DType forward = tensor::DType::e4m3;   ///< of weights and inputs
  tensor::DType gradient = tensor::DType::e4m3;  ///< of output gradients
  std::int64_t amax_history = 1;                 ///< steps (delayed)
  deck::AmaxAlgo amax_algo = deck::AmaxAlgo::max;
  int margin = 0;
  bool power_of_2 = false;
  /// The device's products read only matrices that are contiguous along the sum. So a matrix with one scale is also
  /// kept transposed, for products that sum along its columns.
  bool transposes = tensor::kDevice;
  /// Masters are rounded to bf16 before the cast, as a gather in bf16 would do. Set with compute bf16.
  bool through_bf16 = true;

  std::int64_t first_layer = 0, layers = 0;  ///< the layers in FP8

  static Recipe make(const deck::Config& config);

  bool on() const { return kind != deck::Recipe::none; }
  /// The site of a linear's input in a layer of the model; off if the layer is not in FP8.
  Site site(std::int64_t layer, Linear linear) const;
  bool delayed() const { return kind == deck::Recipe::delayed; }
  /// A matrix has one scale (delayed, current), not one for each block.
  bool per_tensor() const { return kind == deck::Recipe::delayed || kind == deck::Recipe::current; }
  /// No hardware multiplies this format; products decode the values to bf16.
  bool emulated() const { return kind == deck::Recipe::mxfp8; }

  tensor::DType dtype(Role role) const { return role == Role::output_gradient ? gradient : forward; }
  tensor::Scaling by_rows(Role role) const;
  tensor::Scaling by_columns(Role role) const;
  bool two_copies(Role role) const { return by_rows(role) != by_columns(role); }
  /// Whether the cast of an input or output gradient is also written transposed. A matrix that the tensor group
  /// gathers is not: the gathered parts would not be one matrix.
  bool transposed(bool gathered) const { return transposes && per_tensor() && !gathered; }
  /// A weight may be cut over ranks at multiples of this many rows: the rows of a block.
  std::int64_t granularity() const;
  /// The formula of the scale of a whole matrix.
  kernels::ScaleRule rule(Role role) const;
  kernels::CastOptions cast_options(kernels::CastCounts* counts) const;
};

}  // namespace shard8::fp8
