// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

namespace shard8::tensor::cuda {

/// Throws base::Error with the expression, CUDA's number, name and text of the status, the current device, and
/// folder/file:line. The code is environment for what the machine lacks (a device, a driver, memory, code for the
/// device), else failed. After a fault of a kernel every call fails; then the message is that of the first one. This
/// header includes neither fmt nor base, so that device code can include it.
[[noreturn]] void cuda_failed(cudaError_t status, const char* expression, const char* file, int line);

inline void check(cudaError_t status, const char* expression, const char* file, int line) {
  if (status != cudaSuccess) cuda_failed(status, expression, file, line);
}

}  // namespace shard8::tensor::cuda

/// Evaluates a call that returns cudaError_t; throws base::Error unless it is success.
#define SHARD8_CUDA_CHECK(expression) ::shard8::tensor::cuda::check((expression), #expression, __FILE__, __LINE__)

/// Checks the kernel launch just made: throws base::Error if the launch failed. `name` is a string literal for the
/// message. An error while the kernel runs is not seen here.
#define SHARD8_CUDA_CHECK_LAUNCH(name) \
  ::shard8::tensor::cuda::check(::cudaGetLastError(), "launch of " name, __FILE__, __LINE__)
