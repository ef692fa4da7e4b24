// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "tensor/dtype.hpp"

namespace shard8::kernels::cuda {

/// Blocks of 32 elements that share an e8m0 scale (OCP MX): in a row, or in a column.
enum class MxBlocks { row, column };

/// out (R, C) bf16 = in (R, C), e4m3 or e5m2, times its block's scale_inv, (R, C/32) or (R/32, C), rounded
/// once. Extents must be whole blocks, C a multiple of 8, and out 16-byte, the rest 8-byte aligned.
void dequantize_mx(cudaStream_t stream, void* out, const void* in, const void* scale_inv, tensor::DType in_dtype,
                   MxBlocks blocks, std::int64_t rows, std::int64_t cols);

}  // namespace shard8::kernels::cuda
