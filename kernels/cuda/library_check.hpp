// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cublasLt.h>
#include <cudnn.h>

#include <string>

#include "tensor/cuda/device.hpp"

namespace shard8::kernels::cuda {

/// The version of the loaded library, "cuBLASLt 13.1.0". The headers may be of another version.
std::string cublaslt_version();

/// Throws base::Error(failed) with the expression, cuBLASLt's text of the status, and folder/file:line.
[[noreturn]] void cublas_failed(cublasStatus_t status, const char* expression, const char* file, int line);

inline void check_cublas(cublasStatus_t status, const char* expression, const char* file, int line) {
  if (status != CUBLAS_STATUS_SUCCESS) cublas_failed(status, expression, file, line);
}

/// The version of the loaded library, "cuDNN 9.19.0". The headers may be of another version.
std::string cudnn_version();

/// A status as text: "CUDNN_STATUS_X (the last message of the library)".
std::string cudnn_text(cudnnStatus_t status);

/// Throws base::Error with the expression, the library's text, its version and folder/file:line. The code is
/// environment if the library cannot work on this machine, else failed.
[[noreturn]] void cudnn_failed(cudnnStatus_t status, const char* expression, const char* file, int line);

inline void cudnn_check(cudnnStatus_t status, const char* expression, const char* file, int line) {
  if (status != CUDNN_STATUS_SUCCESS) cudnn_failed(status, expression, file, line);
}

/// What the current device has: its number of multiprocessors, its compute capability, and so on.
inline int device_attribute(cudaDeviceAttr which) {
  int device = 0, value = 0;
  SHARD8_CUDA_CHECK(cudaGetDevice(&device));
  SHARD8_CUDA_CHECK(cudaDeviceGetAttribute(&value, which, device));
  return value;
}

}  // namespace shard8::kernels::cuda

/// Evaluates a call that returns cublasStatus_t. Throws base::Error(failed) unless the status is success.
#define SHARD8_CUBLAS_CHECK(expression) \
  ::shard8::kernels::cuda::check_cublas((expression), #expression, __FILE__, __LINE__)

/// Evaluates a call that returns cudnnStatus_t. Throws base::Error unless the status is success.
#define SHARD8_CUDNN_CHECK(expression) \
  ::shard8::kernels::cuda::cudnn_check((expression), #expression, __FILE__, __LINE__)
