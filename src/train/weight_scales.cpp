// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "train/stored_weights.hpp"

#include <algorithm>
#include <cfloat>
#include <cmath>

#include "tensor/float8.hpp"

namespace shard8::train {

using tensor::E4M3;

std::optional<float> scale_of(std::uint32_t amax_bits, const kernels::ScaleRule& rule) {
  const float amax = std::bit_cast<float>(amax_bits);
  if (!(amax > 0 && amax <= FLT_MAX)) return std::nullopt;
  const float quotient = std::ldexp(rule.largest, -rule.margin) / amax;
  const float finite = std::min(quotient, FLT_MAX);
  return rule.power_of_2 ? std::ldexp(1.0f, std::ilogb(finite)) : finite;
}

BlockScale wide_block(std::uint32_t amax, bool power_of_2) {
  const float scale = scale_of(amax, {E4M3::kMax, 0, power_of_2}).value_or(1.0f);
  return {scale, std::bit_cast<std::uint32_t>(1.0f / scale)};
}

BlockScale narrow_block(std::uint32_t amax_bits) {
  const float amax = std::bit_cast<float>(amax_bits);
  if (std::isnan(amax)) return {0x1p-128f, 255};  // what is not NaN in such a block is multiplied by it
  const float quotient = amax / E4M3::kMax;
  int exponent = -127;
  if (std::isinf(quotient)) {
    exponent = 127;
  } else if (quotient > 0) {
    const int below = std::ilogb(quotient);
    exponent = std::clamp(std::ldexp(1.0f, below) == quotient ? below : below + 1, -127, 127);
  }
  return {std::ldexp(1.0f, -exponent), static_cast<std::uint32_t>(exponent + 127)};
}

std::vector<float> scales_with_inverse(float inverse) {
  std::vector<float> scales;
  float scale = 1.0f / inverse;
  for (int i = 0; i < 4; ++i) scale = std::nextafter(scale, 0.0f);
  for (int i = 0; i < 9; ++i, scale = std::nextafter(scale, FLT_MAX))
    if (1.0f / scale == inverse && (scales.empty() || scales.back() != scale)) scales.push_back(scale);
  return scales;
}

}  // namespace shard8::train
