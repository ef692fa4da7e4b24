// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/cublas_check.hpp"

#include "base/error.hpp"
#include "base/short_path.hpp"

namespace shard8::kernels::cuda {
std::string cublaslt_version() {
  const auto version = cublasLtGetVersion();
  return fmt::format("cuBLASLt {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

void cublas_failed(cublasStatus_t status, const char* expression, const char* file, int line) {
  base::fail(base::ExitCode::failed, "cublaslt: {} gave {} ({}) at {}:{}", expression, static_cast<int>(status),
             cublasLtGetStatusString(status), base::short_path(file), line);
}

}  // namespace shard8::kernels::cuda
