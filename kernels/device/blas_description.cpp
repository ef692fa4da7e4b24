// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/blas.hpp"

#include "kernels/cuda/cublas_check.hpp"
#include "kernels/cuda/cudnn_check.hpp"

namespace shard8::kernels {

std::string blas_description() { return cuda::cublaslt_version() + ", " + cuda::cudnn_version(); }

int blas_threads(int) { return 0; }

void reserve_blas_memory(int) {}

}  // namespace shard8::kernels
