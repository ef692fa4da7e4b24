// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace shard8::kernels {

/// The version of the libraries that multiply. On hosts: what OpenBLAS reports (version, options, core), or "unknown
/// vendor" for another BLAS. On devices: the loaded libraries, "cuBLASLt 13.1.0, cuDNN 9.19.0".
std::string blas_description();

/// Makes the BLAS allocate its working memory now, on hosts; the BLAS keeps this memory for all later products.
/// `threads`: the number of threads on which the BLAS runs a product. Throws Error(environment) if the memory cannot be
/// allocated; without this call OpenBLAS would retry for ever in its first product. On devices the function does
/// nothing.
void reserve_blas_memory(int threads);

}  // namespace shard8::kernels
