// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/gemm_operands.hpp"

#include <cuda_bf16.h>

#include <algorithm>

#include "tensor/cuda/check.hpp"

namespace shard8::kernels::cuda {
namespace {

using tensor::DType;

constexpr int kThreads = 256;
constexpr std::int64_t kMostRows = 65535;  // the most rows of a grid

template <class Out, class In>
__global__ void __launch_bounds__(kThreads)
    broadcast_kernel(Out* out, const In* bias, std::int64_t rows, std::int64_t cols) {
  const std::int64_t col = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (col >= cols) return;
  const Out value = static_cast<Out>(static_cast<float>(bias[col]));
  for (std::int64_t row = blockIdx.y; row < rows; row += gridDim.y) out[row * cols + col] = value;
}

template <class Out, class In>
void broadcast(cudaStream_t stream, void* out, const void* bias, std::int64_t rows, std::int64_t cols) {
  const dim3 grid(static_cast<unsigned>((cols + kThreads - 1) / kThreads),
                  static_cast<unsigned>(std::min(rows, kMostRows)));
  broadcast_kernel<<<grid, kThreads, 0, stream>>>(static_cast<Out*>(out), static_cast<const In*>(bias), rows, cols);
  SHARD8_CUDA_CHECK_LAUNCH("broadcast_bias");
}

}  // namespace

void broadcast_bias(cudaStream_t stream, void* out, DType out_dtype, const void* bias, DType bias_dtype,
                    std::int64_t rows, std::int64_t cols) {
  if (rows == 0 || cols == 0) return;
  const bool from_bf16 = bias_dtype == DType::bf16;
  if (out_dtype == DType::bf16) {
    const auto run = from_bf16 ? broadcast<__nv_bfloat16, __nv_bfloat16> : broadcast<__nv_bfloat16, float>;
    run(stream, out, bias, rows, cols);
  } else {
    const auto run = from_bf16 ? broadcast<float, __nv_bfloat16> : broadcast<float, float>;
    run(stream, out, bias, rows, cols);
  }
}

}  // namespace shard8::kernels::cuda
