// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "fp8/recipe.hpp"

#include <algorithm>
#include <string_view>

#include "deck/device.hpp"

namespace shard8::fp8 {

using tensor::DType;
using tensor::Scaling;

std::string name_of(Linear linear, Role role) {
  constexpr std::string_view roles[] = {"input", "weight", "output gradient"};
  return std::string(operation::name_of(linear)) + ' ' + std::string(roles[static_cast<int>(role)]);
}

Recipe Recipe::make(const deck::Config& config) {
  const deck::Fp8Config& fp8 = config.fp8;
  Recipe r;
  r.kind = fp8.recipe;
  if (!r.on()) return r;
  r.transposes = deck::on_device(config.mesh);
  r.gradient = fp8.format == deck::Fp8Format::hybrid ? DType::e5m2 : DType::e4m3;
  r.amax_history = fp8.amax_history;
  r.amax_algo = fp8.amax_algo;
  r.margin = r.delayed() ? static_cast<int>(fp8.margin) : 0;
  r.power_of_2 = fp8.power_of_2_scales;
  r.through_bf16 = config.precision.compute == deck::FloatType::bf16;
  r.first_layer = fp8.first_layers_bf16;
  r.layers = config.model.layers - fp8.first_layers_bf16 - fp8.last_layers_bf16;
  if (!config.model.moe.on()) return r;
  r.dense_layers = fp8.layers_with_ffn(config.model);
  if (fp8.layers_with_experts(config.model) > 0) r.experts = config.model.moe.experts;
  return r;
}

Site Recipe::site(std::int64_t layer, Linear linear) const {
  const std::int64_t index = layer - first_layer;
  return {index >= 0 && index < layers ? static_cast<int>(index) : -1, linear, Role::input};
}

Scaling Recipe::rowwise(Role role) const {
  switch (kind) {
    case deck::Recipe::none:
      return Scaling::none;
    case deck::Recipe::delayed:
    case deck::Recipe::current:
      return Scaling::tensor;
    case deck::Recipe::block:
      return role == Role::weight ? Scaling::tile_128 : Scaling::row_128;
    case deck::Recipe::mxfp8:
      return Scaling::row_32;
  }
  return Scaling::none;
}

Scaling Recipe::columnwise(Role role) const {
  switch (rowwise(role)) {
    case Scaling::row_128:
      return Scaling::column_128;
    case Scaling::row_32:
      return Scaling::column_32;
    default:
      return rowwise(role);
  }
}

std::int64_t Recipe::granularity() const { return tensor::block_rows(columnwise(Role::weight)); }

std::int64_t Recipe::multiple() const {
  if (!on()) return 1;
  constexpr std::int64_t kAligned = 16;  // specified: cuBLASLt's FP8 products
  return std::max(kAligned, tensor::block_rows(columnwise(Role::input)));
}

kernels::ScaleRule Recipe::rule(Role role) const {
  return {dtype(role) == DType::e5m2 ? tensor::E5M2::kMax : tensor::E4M3::kMax, margin, power_of_2};
}

kernels::CastOptions Recipe::cast_options(kernels::CastCounts* counts) const {
  kernels::CastOptions options;
  options.through_bf16 = through_bf16;
  options.power_of_2 = power_of_2;
  options.counts = counts;
  return options;
}

}  // namespace shard8::fp8
