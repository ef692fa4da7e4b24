// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "tensor/dtype.hpp"

namespace shard8::kernels::cuda {

/// The forward of a norm of bf16 over rows of `hidden` elements, as kernels/norm.hpp and kernels/quantize.hpp say: what
/// it reads and leaves in the device's memory. Null: not there.
struct NormForward {
  const void *x, *weight;  ///< bf16 (rows, hidden), (hidden)
  const void* bias;        ///< bf16 (hidden), LayerNorm's; null: RMSNorm
  float *mean, *rstd;      ///< (rows); mean of LayerNorm alone
  std::int64_t rows, hidden;
  float eps;

  void* plain;                   ///< bf16 (rows, hidden)
  void *quantized, *transposed;  ///< (rows, hidden), (hidden, rows) of `format`
  tensor::DType format;          ///< e4m3 or e5m2
  const float* scale;            ///< with `quantized`
  float* scale_inv;              ///< likewise
  std::int32_t* amax;
  unsigned long long *saturated, *flushed;
};

/// Whether norm_forward can: a device with clusters of blocks (compute capability 9.0), rows by the 32, each of so many
/// columns that one cluster holds it (by the 512 to 4096, by the 1024 to 8192), all on 16 bytes; and not a transposed
/// cast beside the plain result.
bool has_norm_forward(const NormForward& norm);

/// Reads x once, whatever is left of it. Sums depend on `hidden` alone, not on what is left.
void norm_forward(cudaStream_t stream, const NormForward& norm);

}  // namespace shard8::kernels::cuda
