// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/cublas_check.hpp"

#include <string_view>

#include "base/error.hpp"

namespace shard8::kernels::cuda {
namespace {

// Folder and file name are enough to find a line, and do not tell where it was built.
std::string_view short_path(std::string_view path) {
  const auto file = path.rfind('/');
  if (file == std::string_view::npos || file == 0) return path;
  const auto folder = path.rfind('/', file - 1);
  return folder == std::string_view::npos ? path : path.substr(folder + 1);
}

}  // namespace

std::string cublaslt_version() {
  const auto version = cublasLtGetVersion();
  return fmt::format("cuBLASLt {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

void cublas_failed(cublasStatus_t status, const char* expression, const char* file, int line) {
  base::fail(base::ExitCode::failed, "cublaslt: {} gave {} ({}) at {}:{}", expression, static_cast<int>(status),
             cublasLtGetStatusString(status), short_path(file), line);
}

}  // namespace shard8::kernels::cuda
