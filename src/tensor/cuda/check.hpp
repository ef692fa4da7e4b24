// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

namespace shard8::tensor::cuda {

/// Throws base::Error (environment for what the machine lacks, else failed) with the expression, the
/// library's own name and text of the status, the current device and folder/file:line. This header
/// needs neither fmt nor base, so that device code can include it.
[[noreturn]] void cuda_failed(cudaError_t status, const char* expression, const char* file, int line);

inline void check(cudaError_t status, const char* expression, const char* file, int line) {
  if (status != cudaSuccess) cuda_failed(status, expression, file, line);
}

}  // namespace shard8::tensor::cuda

/// Evaluates a call that returns cudaError_t; throws base::Error unless it is success.
#define SHARD8_CUDA_CHECK(expression) ::shard8::tensor::cuda::check((expression), #expression, __FILE__, __LINE__)

/// The same for the kernel launch just made.
#define SHARD8_CUDA_CHECK_LAUNCH(name) \
  ::shard8::tensor::cuda::check(::cudaGetLastError(), "launch of " name, __FILE__, __LINE__)
