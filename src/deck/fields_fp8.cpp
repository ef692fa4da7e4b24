// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "deck/fields.hpp"

namespace shard8::deck {
namespace {

template <auto member>
constexpr Slot fp8() {
  return slot<&Config::fp8, member>();
}

constexpr double kMostMargin = 16;  // E4M3 spans 18 powers of two: with a larger margin hardly any value would be left

constexpr Field kFp8[] = {
    {.key = "recipe",
     .slot = fp8<&Fp8Config::recipe>(),
     .help = "what has a scale, and from what it is made; delayed: a tensor, from the steps before; current: a tensor, "
             "from its own values; block: 1 x 128 of activations and gradients, 128 x 128 of weights; mxfp8: 1 x 32, "
             "scales in E8M0; none: no FP8. Widths and tokens on a rank must be multiples of 16 (block 128, mxfp8 32)"},
    {.key = "format",
     .slot = fp8<&Fp8Config::format>(),
     .default_note = "auto: hybrid for delayed and current, e4m3 for block and mxfp8",
     .help = "hybrid: E4M3, and E5M2 for gradients; e4m3: E4M3 for all; another than the recipe's is an error"},
    {.key = "amax_history",
     .slot = fp8<&Fp8Config::amax_history>(),
     .bounds = at_least(1),
     .unit = "steps",
     .help = "steps whose largest absolute values are kept; delayed only"},
    {.key = "amax_algo",
     .slot = fp8<&Fp8Config::amax_algo>(),
     .help = "which of them makes the scale, the largest or that of the last step; delayed only"},
    {.key = "margin",
     .slot = fp8<&Fp8Config::margin>(),
     .bounds = from_to(-kMostMargin, kMostMargin),
     .unit = "powers of two",
     .help = "scales are divided by 2^margin, room for values that grow; delayed only"},
    {.key = "power_of_2_scales",
     .slot = fp8<&Fp8Config::power_of_2_scales>(),
     .default_note = "true for block and mxfp8, else false",
     .help = "round scales down to powers of two; delayed never does, mxfp8 always"},
    {.key = "weights",
     .slot = fp8<&Fp8Config::weights>(),
     .help = "how the FP8 linears keep their weights beside the master; bf16: in precision.compute, cast before or "
             "after each gather as fsdp.gather says"},
    {.key = "first_layers_bf16",
     .slot = fp8<&Fp8Config::first_layers_bf16>(),
     .bounds = at_least(0),
     .unit = "layers",
     .help = "first layers that stay in precision.compute"},
    {.key = "last_layers_bf16",
     .slot = fp8<&Fp8Config::last_layers_bf16>(),
     .bounds = at_least(0),
     .unit = "layers",
     .help = "last layers that stay in precision.compute; with the first ones fewer than model.layers"},
};

}  // namespace

std::span<const Field> fp8_fields() { return kFp8; }

}  // namespace shard8::deck
