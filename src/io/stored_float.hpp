// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace shard8::io {

/// Floating-point types of files that can be decoded to fp32.
enum class StoredFloat { f16, bf16, f32, f64 };

/// From a name of safetensors; false when it is none of them.
bool stored_float_from(std::string_view dtype, StoredFloat& out);

std::int64_t bytes_of(StoredFloat type);

/// out[i] = fp32 of the i-th little-endian value; FP64 is rounded to nearest even. `in` need not
/// be aligned.
void decode_floats(float* out, const std::byte* in, std::int64_t count, StoredFloat type);

}  // namespace shard8::io
