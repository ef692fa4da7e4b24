// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace shard8::kernels {

/// What the BLAS says of itself (OpenBLAS: version, options, core), or "unknown vendor"; on devices the
/// loaded libraries, "cuBLASLt 13.1.0, cuDNN 9.19.0".
std::string blas_description();

/// On hosts: has the BLAS take its working memory now, with which it then computes to the end. `threads` are those of
/// a product. Throws Error(environment) when the memory cannot be had, where OpenBLAS tries for ever in its first
/// product. Nothing on devices.
void reserve_blas_memory(int threads);

}  // namespace shard8::kernels
