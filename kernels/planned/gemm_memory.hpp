// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/operand.hpp"

namespace shard8::kernels::cuda {

/// The workspace that cuBLASLt can use on compute capability 9.0, in bytes.
inline constexpr std::size_t kLtWorkspaceBytes = std::size_t{32} << 20;

/// Bytes of the `memory` of gemm_fprop, gemm_dgrad and gemm_wgrad (kernels/cuda/gemm.hpp), enough for each of them.
/// `scaling`: how x is scaled by rows; Scaling::none stands for any scaling. `transposed`: x and dy are stored
/// transposed where wgrad reads them. Weights never are.
std::size_t gemm_memory_bytes(tensor::DType operands, std::int64_t tokens, std::int64_t inputs, std::int64_t outputs,
                              tensor::Scaling scaling, bool transposed);

}  // namespace shard8::kernels::cuda
