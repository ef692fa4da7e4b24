// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/library_check.hpp"

#include <array>
#include <string_view>

#include "base/error.hpp"

namespace shard8::kernels::cuda {

std::string cublaslt_version() {
  const auto version = cublasLtGetVersion();
  return fmt::format("cuBLASLt {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

void cublas_failed(cublasStatus_t status, const char* expression, const char* file, int line) {
  base::fail(base::ExitCode::failed, "cublaslt: {} gave {} ({}) at {}:{}", expression, static_cast<int>(status),
             cublasLtGetStatusString(status), base::short_path(file), line);
}

namespace {

// Whether the machine lacks something that cuDNN needs. (cuDNN loads its sub-libraries when they are first used.)
bool lacks_something(cudnnStatus_t status) {
  switch (status) {
    case CUDNN_STATUS_NOT_INITIALIZED:
    case CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH:
    case CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED:
    case CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH:
    case CUDNN_STATUS_NOT_SUPPORTED_RUNTIME_PREREQUISITE_MISSING:
      return true;
    default:
      return false;
  }
}

}  // namespace

std::string cudnn_version() {
  const auto version = cudnnGetVersion();
  return fmt::format("cuDNN {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

std::string cudnn_text(cudnnStatus_t status) {
  std::array<char, 1024> last{};
  cudnnGetLastErrorString(last.data(), last.size());
  const std::string_view text(last.data());
  return text.empty() ? std::string(cudnnGetErrorString(status))
                      : fmt::format("{} ({})", cudnnGetErrorString(status), text);
}

void cudnn_failed(cudnnStatus_t status, const char* expression, const char* file, int line) {
  const bool environment = lacks_something(status);
  base::fail(environment ? base::ExitCode::environment : base::ExitCode::failed, "cudnn: {} gave {}, {}, at {}:{}{}",
             expression, cudnn_text(status), cudnn_version(), base::short_path(file), line,
             environment ? "; check that all of its libraries (libcudnn_*.so.9) are on the library path" : "");
}

}  // namespace shard8::kernels::cuda
