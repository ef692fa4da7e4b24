// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cudnn.h>

#include <string>

namespace shard8::kernels::cuda {

/// "cuDNN 9.19.0": the library that is loaded, whatever the headers were.
std::string cudnn_version();

/// "CUDNN_STATUS_X (what the library last complained about)".
std::string cudnn_text(cudnnStatus_t status);

/// Throws base::Error (environment when the library cannot work on this machine, else failed) with
/// the expression, the library's text, its version and folder/file:line.
[[noreturn]] void cudnn_failed(cudnnStatus_t status, const char* expression, const char* file, int line);

inline void cudnn_check(cudnnStatus_t status, const char* expression, const char* file, int line) {
  if (status != CUDNN_STATUS_SUCCESS) cudnn_failed(status, expression, file, line);
}

}  // namespace shard8::kernels::cuda

/// Evaluates a call that returns cudnnStatus_t; throws base::Error unless it is success.
#define SHARD8_CUDNN_CHECK(expression) \
  ::shard8::kernels::cuda::cudnn_check((expression), #expression, __FILE__, __LINE__)
