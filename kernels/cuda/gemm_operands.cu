// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/gemm.hpp"

#include <cuda_bf16.h>
#include <cuda_fp8.h>

#include <algorithm>

#include "tensor/cuda/device.hpp"
#include "tensor/words.hpp"

namespace shard8::kernels::cuda {
namespace {

using tensor::DType;

constexpr int kThreads = 256;
constexpr std::int64_t kMostRows = 65535;  // the most rows of a grid

template <class Out, class In>
__global__ void __launch_bounds__(kThreads)
    broadcast_kernel(Out* out, const In* bias, const Out* addend, std::int64_t rows, std::int64_t cols) {
  const std::int64_t col = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (col >= cols) return;
  const auto value = static_cast<float>(bias[col]);
  for (std::int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
    const std::int64_t i = row * cols + col;
    out[i] = static_cast<Out>(addend == nullptr ? value : static_cast<float>(addend[i]) + value);
  }
}

template <class Out, class In>
void broadcast(cudaStream_t stream, void* out, const void* bias, const void* addend, std::int64_t rows,
               std::int64_t cols) {
  const dim3 grid(static_cast<unsigned>((cols + kThreads - 1) / kThreads),
                  static_cast<unsigned>(std::min(rows, kMostRows)));
  broadcast_kernel<<<grid, kThreads, 0, stream>>>(static_cast<Out*>(out), static_cast<const In*>(bias),
                                                static_cast<const Out*>(addend), rows, cols);
  SHARD8_CUDA_CHECK_LAUNCH("broadcast_bias");
}

constexpr int kMxVector = 8;   // elements that a thread reads at once
constexpr int kMxVectors = 4;  // vectors that a thread reads
constexpr std::int64_t kMxBlock = 32;

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
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * (kThreads * kMxVectors) + threadIdx.x;
  uint2 bytes[kMxVectors];
#pragma unroll
  for (int i = 0; i < kMxVectors; ++i) {
    if (first + i * kThreads < count) bytes[i] = __ldcs(in + first + i * kThreads);
  }
#pragma unroll
  for (int i = 0; i < kMxVectors; ++i) {
    const std::int64_t at = first + i * kThreads;
    if (at >= count) return;
    std::uint32_t scale[kMxVector];
    if constexpr (kColumns) {
      const std::int64_t row = at * kMxVector / cols, col = at * kMxVector - row * cols;
      const uint2 all = __ldg(reinterpret_cast<const uint2*>(scales + row / kMxBlock * cols + col));
#pragma unroll
      for (int e = 0; e < kMxVector; ++e) scale[e] = ((e < 4 ? all.x : all.y) >> (8 * (e % 4))) & 0xffu;
    } else {
      const std::uint32_t one = __ldg(scales + at * kMxVector / kMxBlock);
#pragma unroll
      for (int e = 0; e < kMxVector; ++e) scale[e] = one;
    }
    uint4 result;
    result.x = decode_pair<kFormat>(bytes[i].x & 0xffffu, of_e8m0(scale[0]), of_e8m0(scale[1]));
    result.y = decode_pair<kFormat>(bytes[i].x >> 16, of_e8m0(scale[2]), of_e8m0(scale[3]));
    result.z = decode_pair<kFormat>(bytes[i].y & 0xffffu, of_e8m0(scale[4]), of_e8m0(scale[5]));
    result.w = decode_pair<kFormat>(bytes[i].y >> 16, of_e8m0(scale[6]), of_e8m0(scale[7]));
    out[at] = result;
  }
}

constexpr int kTile = 128;  // bytes: rows and columns of a block's tile
constexpr int kVector = kTransposeVector;
static_assert(kThreads == kTile / 4 * (kTile / kVector));
constexpr int kVectors = kTile / kVector;

// A thread reads 16 columns of 4 rows, and writes one word of 4 rows of each column to shared memory. The 16-byte
// vector v of column c is stored at v ^ (c / 16). So neither the words that a warp writes nor the vectors that it reads
// share a bank.
__global__ void __launch_bounds__(kThreads)
    transpose_bytes_kernel(std::uint8_t* __restrict__ out, const std::uint8_t* __restrict__ in, std::int64_t rows,
                           std::int64_t cols, LastRows last) {
  if (last.first != nullptr && static_cast<std::int64_t>(blockIdx.y) * kTile >= *last.first + *last.count) return;
  __shared__ uint4 tile[kTile * kVectors];
  const int lane = static_cast<int>(threadIdx.x) % kVectors, line = static_cast<int>(threadIdx.x) / kVectors;
  const std::int64_t first_row = static_cast<std::int64_t>(blockIdx.y) * kTile;
  const std::int64_t first_col = static_cast<std::int64_t>(blockIdx.x) * kTile;
  in += blockIdx.z * rows * cols;
  out += blockIdx.z * rows * cols;

  const std::int64_t row = first_row + 4 * line, col = first_col + kVector * lane;
  if (row < rows && col < cols) {
    std::uint32_t words[4][4];  // one row each
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint4 vector = __ldcs(reinterpret_cast<const uint4*>(in + (row + i) * cols + col));
      words[i][0] = vector.x, words[i][1] = vector.y, words[i][2] = vector.z, words[i][3] = vector.w;
    }
    auto* const shared = reinterpret_cast<std::uint32_t*>(tile) + (line ^ (4 * lane));
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      std::uint32_t square[4] = {words[0][w], words[1][w], words[2][w], words[3][w]};
      tensor::transpose_4x4(square);
#pragma unroll
      for (int i = 0; i < 4; ++i) shared[(kVector * lane + 4 * w + i) * (kTile / 4)] = square[i];
    }
  }
  __syncthreads();
  const std::int64_t out_col = first_row + kVector * lane;
  if (out_col >= rows) return;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int c = line + i * (kTile / 4);
    if (first_col + c < cols) {
      *reinterpret_cast<uint4*>(out + (first_col + c) * rows + out_col) = tile[c * kVectors + (lane ^ (c / kVector))];
    }
  }
}

__global__ void pad_scales_kernel(float* out, const float* in, std::int64_t rows, std::int64_t cols,
                                  std::int64_t pitch) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= rows * pitch) return;
  const std::int64_t row = i / pitch, col = i % pitch;
  out[i] = col < cols ? in[row * cols + col] : 0.0f;
}

constexpr int kScaleTile = 32;

__global__ void __launch_bounds__(kThreads)
    transpose_scales_kernel(float* out, const float* in, std::int64_t rows, std::int64_t cols, std::int64_t pitch) {
  __shared__ float tile[kScaleTile][kScaleTile + 1];
  constexpr int kLines = kThreads / kScaleTile;
  const int lane = static_cast<int>(threadIdx.x) % kScaleTile, line = static_cast<int>(threadIdx.x) / kScaleTile;
  const std::int64_t first_row = static_cast<std::int64_t>(blockIdx.x) * kScaleTile;
  const std::int64_t first_col = static_cast<std::int64_t>(blockIdx.y) * kScaleTile;
#pragma unroll
  for (int i = line; i < kScaleTile; i += kLines) {
    const std::int64_t row = first_row + i, col = first_col + lane;
    tile[i][lane] = row < rows && col < cols ? in[row * cols + col] : 0.0f;
  }
  __syncthreads();
#pragma unroll
  for (int i = line; i < kScaleTile; i += kLines) {
    const std::int64_t row = first_row + lane, col = first_col + i;
    if (row < pitch && col < cols) out[col * pitch + row] = tile[lane][i];
  }
}

unsigned blocks_of(std::int64_t count, std::int64_t size) { return static_cast<unsigned>((count + size - 1) / size); }

}  // namespace

void broadcast_bias(cudaStream_t stream, void* out, DType out_dtype, const void* bias, DType bias_dtype,
                    std::int64_t rows, std::int64_t cols, const void* addend) {
  if (rows == 0 || cols == 0) return;
  const bool from_bf16 = bias_dtype == DType::bf16;
  if (out_dtype == DType::bf16) {
    const auto run = from_bf16 ? broadcast<__nv_bfloat16, __nv_bfloat16> : broadcast<__nv_bfloat16, float>;
    run(stream, out, bias, addend, rows, cols);
  } else {
    const auto run = from_bf16 ? broadcast<float, __nv_bfloat16> : broadcast<float, float>;
    run(stream, out, bias, addend, rows, cols);
  }
}

void dequantize_mx(cudaStream_t stream, void* out, const void* in, const void* scale_inv, DType in_dtype,
                   MxBlocks blocks, std::int64_t rows, std::int64_t cols) {
  const std::int64_t count = rows * cols / kMxVector;
  if (count == 0) return;
  const bool columns = blocks == MxBlocks::column;
  const auto kernel = in_dtype == DType::e4m3
                          ? (columns ? dequantize_kernel<__NV_E4M3, true> : dequantize_kernel<__NV_E4M3, false>)
                          : (columns ? dequantize_kernel<__NV_E5M2, true> : dequantize_kernel<__NV_E5M2, false>);
  constexpr std::int64_t kPerBlock = kThreads * kMxVectors;
  kernel<<<static_cast<unsigned>((count + kPerBlock - 1) / kPerBlock), kThreads, 0, stream>>>(
      static_cast<uint4*>(out), static_cast<const uint2*>(in), static_cast<const std::uint8_t*>(scale_inv), count,
      cols);
  SHARD8_CUDA_CHECK_LAUNCH("dequantize_mx");
}

void transpose_bytes(cudaStream_t stream, void* out, const void* in, std::int64_t rows, std::int64_t cols,
                     std::int64_t count, LastRows last) {
  if (rows == 0 || cols == 0 || count == 0) return;
  const dim3 grid(blocks_of(cols, kTile), blocks_of(rows, kTile), static_cast<unsigned>(count));
  transpose_bytes_kernel<<<grid, kThreads, 0, stream>>>(static_cast<std::uint8_t*>(out),
                                                        static_cast<const std::uint8_t*>(in), rows, cols, last);
  SHARD8_CUDA_CHECK_LAUNCH("transpose_bytes");
}

void pad_scales(cudaStream_t stream, float* out, const float* in, std::int64_t rows, std::int64_t cols,
                std::int64_t pitch) {
  if (rows == 0 || pitch == 0) return;
  pad_scales_kernel<<<blocks_of(rows * pitch, kThreads), kThreads, 0, stream>>>(out, in, rows, cols, pitch);
  SHARD8_CUDA_CHECK_LAUNCH("pad_scales");
}

void transpose_scales(cudaStream_t stream, float* out, const float* in, std::int64_t rows, std::int64_t cols,
                      std::int64_t pitch) {
  if (cols == 0 || pitch == 0) return;
  const dim3 grid(blocks_of(pitch, kScaleTile), blocks_of(cols, kScaleTile));
  transpose_scales_kernel<<<grid, kThreads, 0, stream>>>(out, in, rows, cols, pitch);
  SHARD8_CUDA_CHECK_LAUNCH("transpose_scales");
}

}  // namespace shard8::kernels::cuda
