// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "tensor/dtype.hpp"

/// The kernels that prepare operands for cuBLASLt.
namespace shard8::kernels::cuda {

/// Every row of out (rows, cols) = bias (cols). Both are fp32 or bf16; the bias is converted if the dtypes differ.
void broadcast_bias(cudaStream_t stream, void* out, tensor::DType out_dtype, const void* bias, tensor::DType bias_dtype,
                    std::int64_t rows, std::int64_t cols);

/// Which 32 elements share an e8m0 scale (OCP MX): neighbours in a row, or neighbours in a column.
enum class MxBlocks { row, column };

/// out (R, C) bf16 = in (R, C), e4m3 or e5m2, times the inverse scale of its block, rounded once. scale_inv is (R,
/// C/32) or (R/32, C). Extents must be whole blocks and C a multiple of 8; out must be aligned to 16 bytes, in and
/// scale_inv to 8.
void dequantize_mx(cudaStream_t stream, void* out, const void* in, const void* scale_inv, tensor::DType in_dtype,
                   MxBlocks blocks, std::int64_t rows, std::int64_t cols);

/// Bytes that transpose_bytes reads and writes at once.
inline constexpr std::int64_t kTransposeVector = 16;

/// The last rows of a matrix that are in use, in device memory: *count rows from row *first on. Null: all rows are.
struct LastRows {
  const std::int32_t *first = nullptr, *count = nullptr;
};

/// out (C, R) = in (R, C)ᵀ, one byte an element, for `count` matrices, one behind the other. R, C and both addresses
/// must be multiples of kTransposeVector; at most 65535 matrices. Rows behind the `last` ones are transposed up to the
/// next multiple of 128; what `out` holds of the others is undefined.
void transpose_bytes(cudaStream_t stream, void* out, const void* in, std::int64_t rows, std::int64_t cols,
                     std::int64_t count = 1, LastRows last = {});

/// out (R, pitch) = in (R, C), and zeros from column C on. For block scales.
void pad_scales(cudaStream_t stream, float* out, const float* in, std::int64_t rows, std::int64_t cols,
                std::int64_t pitch);

/// out (C, pitch) = in (R, C)ᵀ, and zeros from column R on. For block scales.
void transpose_scales(cudaStream_t stream, float* out, const float* in, std::int64_t rows, std::int64_t cols,
                      std::int64_t pitch);

}  // namespace shard8::kernels::cuda
