// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/libraries.hpp"
#include "tensor/operand.hpp"
#include "tensor/runtime.hpp"

namespace shard8::kernels {

/// The three matrix products of a linear layer with weight w (N, K): T tokens, K inputs, N outputs. All matrices are
/// row-major.
///
/// Dtypes. The two operands are both fp32, both bf16, or both FP8: e4m3 and e5m2, but not both e5m2. fp32 operands give
/// fp32; bf16 and FP8 operands give fp32 or bf16; gemm_wgrad always gives fp32. Sums are accumulated in fp32 and
/// rounded once to the output's dtype. One exception: on devices fprop of FP8 operands with one scale each accumulates
/// with fewer bits (kernels/cuda/gemm.hpp).
///
/// FP8 scales. Blocks must run along the summed dimension: fprop reads x and w rowwise, dgrad reads dy rowwise and w
/// columnwise, wgrad reads dy and x columnwise. One scale for the whole tensor serves both directions. 128×128 blocks,
/// which only weights have, serve both directions as well. Any other scaling is an error. On hosts one scale for the
/// whole tensor multiplies the fp32 sum, as in cuBLASLt; block scales multiply the decoded elements, which is exact for
/// powers of two.
///
/// Hosts multiply fp32 by the BLAS; they decode bf16 and FP8 to fp32, one tile at a time, in `workspace`, and multiply
/// in fp32. On NVIDIA's devices cuBLASLt multiplies, with the algorithms of workspace.libraries, which must be there.
/// cuBLASLt reads FP8 operands only with the summed dimension contiguous. The product therefore first transposes the
/// other FP8 operands in `workspace`; their extents and addresses must be multiples of 16. An operand that is stored
/// transposed already (Operand::transposed) is read as it is; hosts refuse it. FP8 operands with blocks of 32 are
/// decoded to bf16 on devices, an emulation; they must not be transposed.
///
/// workspace.memory must have at least gemm_workspace_bytes() of u8. Arguments other than stated are an Error(failed)
/// that names the operand and says what is allowed.

/// y (T, N) = x (T, K) · wᵀ [+ bias (N), if not empty] [+ residual (T, N), if not empty]. The bias has y's dtype if the
/// operands are FP8, else x's dtype. The residual has y's dtype and needs K > 0; hosts refuse a residual. On devices
/// FP8 operands with a residual take no fp32 bias.
void gemm_fprop(const tensor::Exec& exec, const tensor::Tensor& y, const tensor::Operand& x, const tensor::Operand& w,
                const tensor::Tensor& bias, const Workspace& workspace, const tensor::Tensor& residual = {});

/// dx (T, K) = dy (T, N) · w (N, K). With `accumulate`: dx += dy · w, for fp32 dx only.
void gemm_dgrad(const tensor::Exec& exec, const tensor::Tensor& dx, const tensor::Operand& dy, const tensor::Operand& w,
                bool accumulate, const Workspace& workspace);

/// dw (N, K) fp32 = dyᵀ (N, T) · x (T, K). With `accumulate`: dw += dyᵀ · x.
void gemm_wgrad(const tensor::Exec& exec, const tensor::Tensor& dw, const tensor::Operand& dy, const tensor::Operand& x,
                bool accumulate, const Workspace& workspace);

/// Bytes of workspace, enough for each of the three products with up to `tokens`, `inputs` and `outputs`. `operands` is
/// the dtype of x. On hosts: 0 for fp32, three tiles of at most 1024×1024 fp32 for bf16 and FP8. On devices: what
/// cuBLASLt needs and, with FP8, room for copies of operands. `scaling` says how x is scaled rowwise; Scaling::none
/// stands for any scaling. `transposed` says that x and dy are stored transposed when wgrad reads them, so they need no
/// copies. The weight that dgrad reads always needs one.
std::size_t gemm_workspace_bytes(tensor::DType operands, std::int64_t tokens, std::int64_t inputs, std::int64_t outputs,
                                 tensor::Scaling scaling = tensor::Scaling::none, bool transposed = false);

/// The rows of matrices (R, ...) that belong to G groups: group g has rows first[g] … first[g] + rows[g] − 1. Groups do
/// not overlap, and lie one behind the other in the order of g. A group may have no rows. `first` and `rows` are (G)
/// i32 in the memory of the execution space, so on a device the host does not know them.
struct RowGroups {
  tensor::Tensor first, rows;
};

/// The three matrix products of G linear layers with weights w (G·N, K), one (N, K) below the other: rows of group g
/// are multiplied by weight g. Dtypes, scales and the order of sums are those of gemm_fprop(), gemm_dgrad() and
/// gemm_wgrad(), with these differences:
/// - A weight with one scale for the whole tensor (Scaling::tensor) has one for each group: scale_inv (G).
/// - N must be whole blocks of the weight's scaling.
/// - For FP8 operands each first[g] must be a multiple of kGroupedRowsMultiple, and of the rows of a block. wgrad may
///   read rows behind a group's last one, up to the next multiple of these: their values must be 0.
/// - Rows that belong to no group are not computed; what `y` and `dx` hold there afterwards is undefined.
///
/// Where no kernel multiplies groups whose sizes only the device knows (see grouped_gemm_waits()), the host waits for
/// the sizes and multiplies group by group. workspace.memory must have at least grouped_gemm_workspace_bytes() of u8.
/// Arguments other than stated are an Error(failed) that names the operand and says what is allowed.

/// The first row of each group of FP8 operands is a multiple of this number.
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
