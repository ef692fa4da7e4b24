// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/check/arguments.hpp"
#include "kernels/quantize.hpp"

/// Which forms of a result Outputs asks for, and whether its tensors fit.
namespace shard8::kernels {

/// Whether a cast is asked for. (A shard without elements has no data, but still a scale.)
inline bool has_cast(const Outputs& out) { return !out.quantized.empty() || !out.quantized.scale_inv.empty(); }

/// Whether nothing is asked for.
inline bool asks_for_nothing(const Outputs& out) { return out.plain.empty() && !has_cast(out) && out.amax.empty(); }

/// The tensor that has the shape of the result. It has no elements if only an amax is asked for.
inline const tensor::Tensor& result_of(const Outputs& out) {
  return out.plain.empty() && !out.quantized.empty() ? out.quantized.data : out.plain;
}

/// Throws Error(failed) unless something is asked for and each tensor fits a result of `count` elements. `kernel` and
/// `name` are the operator and its argument, for the message.
inline void require_outputs(const char* kernel, const char* name, const Outputs& out, std::int64_t count) {
  if (!out.plain.empty() || (!has_cast(out) && out.amax.empty())) require_count(kernel, name, out.plain, count);
  if (!out.amax.empty()) require_count(kernel, "amax", out.amax, 1);
  if (!has_cast(out)) return;
  require_count(kernel, name, out.quantized.data, count);
  SHARD8_REQUIRE(out.quantized.scaling == tensor::Scaling::tensor, "{}: {} scaled by {}; allowed is {}", kernel, name,
                 tensor::name_of(out.quantized.scaling), tensor::name_of(tensor::Scaling::tensor));
  require_count(kernel, "scale", out.scale, 1);
  require_count(kernel, "scale_inv", out.quantized.scale_inv, 1);
  if (!out.transposed.empty()) require_count(kernel, "transposed", out.transposed, count);
}

}  // namespace shard8::kernels
