// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/gemm_operands.hpp"

#include "tensor/cuda/check.hpp"
#include "tensor/words.hpp"

namespace shard8::kernels::cuda {
namespace {

constexpr int kTile = 128;  // bytes: rows and columns of a block's tile
constexpr int kVector = kTransposeVector;
constexpr int kThreads = 256;  // (kTile / 4 rows) x (kTile / kVector)
constexpr int kVectors = kTile / kVector;

// A thread reads 16 columns of 4 rows, and writes one word of 4 rows of each column to shared memory. The 16-byte
// vector v of column c is stored at v ^ (c / 16). So neither the words that a warp writes nor the vectors that it reads
// share a bank.
__global__ void __launch_bounds__(kThreads)
    transpose_bytes_kernel(std::uint8_t* __restrict__ out, const std::uint8_t* __restrict__ in, std::int64_t rows,
                           std::int64_t cols) {
  __shared__ uint4 tile[kTile * kVectors];
  const int lane = static_cast<int>(threadIdx.x) % kVectors, line = static_cast<int>(threadIdx.x) / kVectors;
  const std::int64_t first_row = static_cast<std::int64_t>(blockIdx.y) * kTile;
  const std::int64_t first_col = static_cast<std::int64_t>(blockIdx.x) * kTile;

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

void transpose_bytes(cudaStream_t stream, void* out, const void* in, std::int64_t rows, std::int64_t cols) {
  if (rows == 0 || cols == 0) return;
  const dim3 grid(blocks_of(cols, kTile), blocks_of(rows, kTile));
  transpose_bytes_kernel<<<grid, kThreads, 0, stream>>>(static_cast<std::uint8_t*>(out),
                                                        static_cast<const std::uint8_t*>(in), rows, cols);
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
