// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace shard8::kernels {

/// What the BLAS says of itself (OpenBLAS: version, options, core), or "unknown vendor".
std::string blas_description();

}  // namespace shard8::kernels
