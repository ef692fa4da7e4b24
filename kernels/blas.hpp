// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace shard8::kernels {

/// The version of the libraries that multiply. On hosts: what OpenBLAS reports (version, options, core), or "unknown
/// vendor" for another BLAS. On devices: the loaded libraries, "cuBLASLt 13.1.0, cuDNN 9.19.0".
std::string blas_description();

/// On how many threads the BLAS runs a large product of a rank that has `threads` threads. A BLAS with threads of its
/// own (pthreads) is given that number first, unless OPENBLAS_NUM_THREADS or GOTO_NUM_THREADS names one. Runs no
/// product. 0 where the library does not tell: it is no OpenBLAS, or one without threads. On devices 0.
int blas_threads(int threads);

/// Makes the BLAS allocate its working memory now, on hosts; the BLAS keeps this memory for all later products.
/// `threads`: the number of threads on which the BLAS runs a product. Throws Error(environment) if the memory cannot be
/// allocated; without this call OpenBLAS would retry for ever in its first product. On devices the function does
/// nothing.
void reserve_blas_memory(int threads);

}  // namespace shard8::kernels
