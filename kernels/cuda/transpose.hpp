// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace shard8::kernels::cuda {

/// Bytes that are read and written at once.
inline constexpr std::int64_t kTransposeVector = 16;

/// out (C, R) = in (R, C)ᵀ, one byte an element. R and C must be multiples of kTransposeVector,
/// and so must both addresses.
void transpose_bytes(cudaStream_t stream, void* out, const void* in, std::int64_t rows, std::int64_t cols);

/// out (R, pitch) = in (R, C), zeros from column C on.
void pad_scales(cudaStream_t stream, float* out, const float* in, std::int64_t rows, std::int64_t cols,
                std::int64_t pitch);

/// out (C, pitch) = in (R, C)ᵀ, zeros from column R on.
void transpose_scales(cudaStream_t stream, float* out, const float* in, std::int64_t rows, std::int64_t cols,
                      std::int64_t pitch);

}  // namespace shard8::kernels::cuda
