// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/check/gemm.hpp"
#include "tensor/exec.hpp"

namespace shard8::kernels {

/// Rows and columns of the tiles in which bf16 and FP8 matrices are decoded.
inline constexpr std::int64_t kProductTile = 1024;

/// Computes a product on the host. fp32 matrices are multiplied in place, others through fp32 tiles in `workspace`.
/// Throws Error(failed) as check_product(), for a workspace that is too small, and for an operand that is stored
/// transposed.
void multiply(const tensor::Exec& exec, const char* kernel, const Product& product, const tensor::Tensor& workspace);

}  // namespace shard8::kernels
