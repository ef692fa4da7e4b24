// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.hpp"
#include "tensor/operand.hpp"

namespace shard8::kernels::cuda {

/// The arguments of norm_forward: the forward of a norm of bf16 over rows of `hidden` elements, as
/// kernels/elementwise.hpp and kernels/quantize.hpp state. All pointers are to the device's memory. A null pointer: the
/// result is not requested.
struct NormForward {
  void* x;             ///< bf16 (rows, hidden)
  const void* weight;  ///< bf16 (hidden)
  const void* bias;    ///< bf16 (hidden), for LayerNorm; null means RMSNorm
  float *mean, *rstd;  ///< (rows); mean only for LayerNorm
  std::int64_t rows, hidden;
  float eps;
  const void* partial_sums[tensor::PartialSums::kMost];  ///< bf16 (rows, hidden)
  int partial_sum_count;  ///< 0: x is there. Otherwise the kernel writes the sum of the partial sums to x; only for
                          ///< RMSNorm

  void* plain;                   ///< bf16 (rows, hidden)
  void *quantized, *transposed;  ///< (rows, hidden), (hidden, rows) of `format`
  tensor::DType format;          ///< e4m3 or e5m2
  const float* scale;            ///< with `quantized`; null: each 1×128 block has the scale of its own amax
  float* scale_inv;              ///< written with `quantized`; without `scale` (rows, hidden/128)
  bool power_of_2;               ///< whether scales of blocks are floored to powers of two
  std::int32_t* amax;
  unsigned long long *saturated, *flushed;
};

/// Whether norm_forward takes these arguments. The kernel needs a device with clusters of blocks (compute capability
/// 9.0); a multiple of 32 rows; a row that one cluster holds (a multiple of 512 columns up to 4096, or of 1024 up to
/// 8192); pointers aligned to 16 bytes. The kernel cannot write both the plain result and a transposed cast. A cast
/// with scales of blocks is written alone, and in e4m3.
bool has_norm_forward(const NormForward& norm);

/// Runs the norm; has_norm_forward(norm) must be true. Reads x once, or each partial sum once. Reads rows of x again if
/// the cast of one of their results saturates. Sums depend on `hidden` alone, not on what is written.
void norm_forward(cudaStream_t stream, const NormForward& norm);

/// Launches a kernel that ends when `nanoseconds` have passed since it began. The kernel's `blocks` blocks read
/// `memory`, of `bytes` bytes, over and over, all together `bytes_per_ns` bytes in a nanosecond or as fast as they can.
/// With one block and no `memory` the kernel only spins. The clock of the device has steps of up to 1 us: a single wait
/// is known to that, the mean of many is not changed by it.
void launch_wait(cudaStream_t stream, std::uint64_t nanoseconds, int blocks, const std::uint64_t* memory,
                 std::size_t bytes, double bytes_per_ns);

}  // namespace shard8::kernels::cuda
