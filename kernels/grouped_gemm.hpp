// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/libraries.hpp"
#include "tensor/exec.hpp"
#include "tensor/operand.hpp"

namespace shard8::kernels {

/// The rows of matrices (R, ...) that belong to G groups: group g has rows first[g] … first[g] + rows[g] − 1. Groups do
/// not overlap, and lie one behind the other in the order of g. A group may have no rows. Both are (G) i32 in the
/// memory of the execution space, so on a device the host does not know them.
struct RowGroups {
  tensor::Tensor first, rows;
};

/// The three matrix products of G linear layers with weights w (G·N, K), one (N, K) below the other: rows of group g
/// are multiplied by weight g. Dtypes, scales and the order of sums are those of kernels/gemm.hpp, with these
/// differences:
/// - A weight with one scale for the whole tensor (Scaling::tensor) has one for each group: scale_inv (G).
/// - N must be whole blocks of the weight's scaling.
/// - Of FP8 operands each first[g] must be a multiple of kGroupedRowsMultiple, and of the rows of a block. wgrad may
///   read rows behind a group's last one, up to the next multiple of these: their values must be 0.
/// - Rows that belong to no group are not computed; what `y` and `dx` hold there afterwards is undefined.
///
/// Where no kernel multiplies groups whose sizes only the device knows (see grouped_gemm_waits()), the host waits for
/// the sizes and multiplies group by group. workspace.memory must have at least grouped_gemm_workspace_bytes() of u8.
/// Arguments other than stated are an Error(failed) that names the operand and says what is allowed.

/// Of FP8 operands the first row of each group is a multiple of this.
inline constexpr std::int64_t kGroupedRowsMultiple = 16;

/// y (R, N) = x (R, K) · w[g]ᵀ for the rows of each group g.
void grouped_gemm_fprop(const tensor::Exec& exec, const tensor::Tensor& y, const tensor::Operand& x,
                        const tensor::Operand& w, const RowGroups& groups, const Workspace& workspace);

/// dx (R, K) = dy (R, N) · w[g] for the rows of each group g.
void grouped_gemm_dgrad(const tensor::Exec& exec, const tensor::Tensor& dx, const tensor::Operand& dy,
                        const tensor::Operand& w, const RowGroups& groups, const Workspace& workspace);

/// dw (G·N, K) fp32: dw[g] = dyᵀ · x of the rows of group g, dy (R, N) and x (R, K). With `accumulate`: dw[g] += dyᵀ ·
/// x. Without it a group without rows gets zeros.
void grouped_gemm_wgrad(const tensor::Exec& exec, const tensor::Tensor& dw, const tensor::Operand& dy,
                        const tensor::Operand& x, const RowGroups& groups, bool accumulate, const Workspace& workspace);

/// Bytes of workspace, enough for each of the three products of `groups` groups with up to `rows` rows together,
/// `inputs` and `outputs`. `operands`, `scaling` and `transposed` as in gemm_workspace_bytes().
std::size_t grouped_gemm_workspace_bytes(tensor::DType operands, std::int64_t groups, std::int64_t rows,
                                         std::int64_t inputs, std::int64_t outputs,
                                         tensor::Scaling scaling = tensor::Scaling::none, bool transposed = false);

/// Whether the host waits for the sizes of the groups in products of operands of this dtype and rowwise scaling that
/// give `out`, with weights of (outputs, inputs). Always on hosts, where the wait ends at once. On devices the host
/// does not wait if the build has CUTLASS, the device's compute capability is 9.0, `out` is bf16, and the operands are
/// - bf16, with rows and columns of weights that are multiples of 8;
/// - FP8 with one scale for the whole tensor, with multiples of 16;
/// - FP8 with blocks of 128, with multiples of 128.
/// Weights and activations are e4m3 there, gradients e4m3 or e5m2.
bool grouped_gemm_waits(tensor::DType operands, tensor::Scaling scaling, tensor::DType out, std::int64_t inputs,
                        std::int64_t outputs);

}  // namespace shard8::kernels
