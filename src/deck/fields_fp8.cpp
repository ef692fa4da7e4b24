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
     .help = "scaling: delayed: a matrix, from earlier steps; current: a matrix, from its values; block: 1x128 and "
             "128x128; mxfp8: 1x32, E8M0 scales; none: no FP8"},
    {.key = "format",
     .slot = fp8<&Fp8Config::format>(),
     .default_note = "auto: hybrid for delayed and current, e4m3 for block and mxfp8",
     .help = "hybrid: E4M3, gradients E5M2; e4m3: all E4M3; only the recipe's own format is allowed"},
    {.key = "amax_history",
     .slot = fp8<&Fp8Config::amax_history>(),
     .bounds = at_least(1),
     .unit = "steps",
     .help = "steps of amaxes kept, delayed only"},
    {.key = "amax_algo",
     .slot = fp8<&Fp8Config::amax_algo>(),
     .help = "the amax of the history that makes the scale, delayed only"},
    {.key = "margin",
     .slot = fp8<&Fp8Config::margin>(),
     .bounds = from_to(-kMostMargin, kMostMargin),
     .unit = "powers of two",
     .help = "scales are divided by 2^margin, delayed only"},
    {.key = "power_of_2_scales",
     .slot = fp8<&Fp8Config::power_of_2_scales>(),
     .default_note = "true for block and mxfp8, else false",
     .help = "round scales down to powers of two; never with delayed, always with mxfp8"},
    {.key = "weights",
     .slot = fp8<&Fp8Config::weights>(),
     .help = "storage of FP8 linears' weights beside the master; bf16: in precision.compute, cast at each gather"},
    {.key = "first_layers_bf16",
     .slot = fp8<&Fp8Config::first_layers_bf16>(),
     .bounds = at_least(0),
     .unit = "layers",
     .help = "first layers kept in precision.compute"},
    {.key = "last_layers_bf16",
     .slot = fp8<&Fp8Config::last_layers_bf16>(),
     .bounds = at_least(0),
     .unit = "layers",
     .help = "last layers kept in precision.compute; at least one layer must remain in FP8"},
};

}  // namespace

std::span<const Field> fp8_fields() { return kFp8; }

}  // namespace shard8::deck
