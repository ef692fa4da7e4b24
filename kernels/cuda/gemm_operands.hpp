// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "tensor/dtype.hpp"

/// The kernels that prepare what cuBLASLt multiplies.
namespace shard8::kernels::cuda {

/// Every row of out (T, N) = bias (N). Each is fp32 or bf16; the bias is converted if they differ.
void broadcast_bias(cudaStream_t stream, void* out, tensor::DType out_dtype, const void* bias, tensor::DType bias_dtype,
                    std::int64_t rows, std::int64_t cols);

/// Blocks of 32 elements that share an e8m0 scale (OCP MX): in a row, or in a column.
enum class MxBlocks { row, column };

/// out (R, C) bf16 = in (R, C), e4m3 or e5m2, times scale_inv of its block, (R, C/32) or (R/32, C), rounded once.
/// Extents must be whole blocks, C a multiple of 8, out aligned to 16 bytes and the others to 8.
void dequantize_mx(cudaStream_t stream, void* out, const void* in, const void* scale_inv, tensor::DType in_dtype,
                   MxBlocks blocks, std::int64_t rows, std::int64_t cols);

/// Bytes that transpose_bytes reads and writes at once.
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
