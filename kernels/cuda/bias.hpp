// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "tensor/dtype.hpp"

namespace shard8::kernels::cuda {

/// Every row of out (T, N) = bias (N), each fp32 or bf16; converted if they differ.
void broadcast_bias(cudaStream_t stream, void* out, tensor::DType out_dtype, const void* bias, tensor::DType bias_dtype,
                    std::int64_t rows, std::int64_t cols);

}  // namespace shard8::kernels::cuda
