// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "tensor/dtype.hpp"

namespace shard8::comm {

/// out[i] = sources[0][i] + sources[1][i] + …, added in that order in fp32; bf16 is rounded once, at
/// the end. fp32 or bf16. out may be one of the sources.
void sum_in_order(std::byte* out, std::span<const std::byte* const> sources, std::int64_t count, tensor::DType dtype);

/// The same with the larger of two; NaN wins. i32, too, as signed integers.
void max_in_order(std::byte* out, std::span<const std::byte* const> sources, std::int64_t count, tensor::DType dtype);

}  // namespace shard8::comm
