// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/gemm_operands.hpp"

#include <cuda_bf16.h>
#include <cuda_fp8.h>

#include "tensor/cuda/check.hpp"

namespace shard8::kernels::cuda {
namespace {

using tensor::DType;

constexpr int kThreads = 256;
constexpr int kVector = 8;   // elements that a thread reads at once
constexpr int kVectors = 4;  // vectors that a thread reads
constexpr std::int64_t kBlock = 32;

/// 2^(bits - 127); 255 is NaN.
__device__ __forceinline__ float of_e8m0(std::uint32_t bits) {
  const std::uint32_t finite = bits == 0 ? 0x00400000u : bits << 23;
  return __uint_as_float(bits == 255 ? 0x7fc00000u : finite);
}

template <__nv_fp8_interpretation_t kFormat>
__device__ __forceinline__ std::uint32_t decode_pair(std::uint32_t bits, float first, float second) {
  const __half2 pair(__nv_cvt_fp8x2_to_halfraw2(static_cast<__nv_fp8x2_storage_t>(bits), kFormat));
  const float2 values = __half22float2(pair);
  const __nv_bfloat162 rounded = __floats2bfloat162_rn(values.x * first, values.y * second);
  return *reinterpret_cast<const std::uint32_t*>(&rounded);
}

/// kColumns: 32×1 blocks, scales (R/32, C); else 1×32, scales (R, C/32).
template <__nv_fp8_interpretation_t kFormat, bool kColumns>
__global__ void __launch_bounds__(kThreads)
    dequantize_kernel(uint4* __restrict__ out, const uint2* __restrict__ in, const std::uint8_t* __restrict__ scales,
                      std::int64_t count, std::int64_t cols) {
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * (kThreads * kVectors) + threadIdx.x;
  uint2 bytes[kVectors];
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    if (first + i * kThreads < count) bytes[i] = __ldcs(in + first + i * kThreads);
  }
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const std::int64_t at = first + i * kThreads;
    if (at >= count) return;
    std::uint32_t scale[kVector];
    if constexpr (kColumns) {
      const std::int64_t row = at * kVector / cols, col = at * kVector - row * cols;
      const uint2 all = __ldg(reinterpret_cast<const uint2*>(scales + row / kBlock * cols + col));
#pragma unroll
      for (int e = 0; e < kVector; ++e) scale[e] = ((e < 4 ? all.x : all.y) >> (8 * (e % 4))) & 0xffu;
    } else {
      const std::uint32_t one = __ldg(scales + at * kVector / kBlock);
#pragma unroll
      for (int e = 0; e < kVector; ++e) scale[e] = one;
    }
    uint4 result;
    result.x = decode_pair<kFormat>(bytes[i].x & 0xffffu, of_e8m0(scale[0]), of_e8m0(scale[1]));
    result.y = decode_pair<kFormat>(bytes[i].x >> 16, of_e8m0(scale[2]), of_e8m0(scale[3]));
    result.z = decode_pair<kFormat>(bytes[i].y & 0xffffu, of_e8m0(scale[4]), of_e8m0(scale[5]));
    result.w = decode_pair<kFormat>(bytes[i].y >> 16, of_e8m0(scale[6]), of_e8m0(scale[7]));
    out[at] = result;
  }
}

}  // namespace

void dequantize_mx(cudaStream_t stream, void* out, const void* in, const void* scale_inv, DType in_dtype,
                   MxBlocks blocks, std::int64_t rows, std::int64_t cols) {
  const std::int64_t count = rows * cols / kVector;
  if (count == 0) return;
  const bool columns = blocks == MxBlocks::column;
  const auto kernel = in_dtype == DType::e4m3
                          ? (columns ? dequantize_kernel<__NV_E4M3, true> : dequantize_kernel<__NV_E4M3, false>)
                          : (columns ? dequantize_kernel<__NV_E5M2, true> : dequantize_kernel<__NV_E5M2, false>);
  constexpr std::int64_t kPerBlock = kThreads * kVectors;
  kernel<<<static_cast<unsigned>((count + kPerBlock - 1) / kPerBlock), kThreads, 0, stream>>>(
      static_cast<uint4*>(out), static_cast<const uint2*>(in), static_cast<const std::uint8_t*>(scale_inv), count,
      cols);
  SHARD8_CUDA_CHECK_LAUNCH("dequantize_mx");
}

}  // namespace shard8::kernels::cuda
