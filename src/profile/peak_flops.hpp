// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace shard8::profile {

/// What matrix products read; FP32 without TF32.
enum class Products : std::uint8_t { fp32, bf16, fp8 };

/// FLOPs a second of dense products, by the data sheets of NVIDIA's devices, of one with this name (as CUDA has it:
/// "NVIDIA H200"); 0 of another, or of a type that it has no products for.
double peak_flops(std::string_view device, Products products);

}  // namespace shard8::profile
