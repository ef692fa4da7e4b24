// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "kernels/libraries.hpp"
#include "tensor/exec.hpp"
#include "tensor/operand.hpp"

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
/// columnwise, wgrad reads dy and x columnwise. One scale for the whole tensor serves both directions. So do 128×128
/// blocks, which only weights have. Any other scaling is an error. On hosts one scale for the whole tensor multiplies
/// the fp32 sum, as in cuBLASLt; block scales multiply the decoded elements, which is exact for powers of two.
///
/// Hosts multiply fp32 by the BLAS; they decode bf16 and FP8 to fp32, one tile at a time, in `workspace`, and multiply
/// in fp32. On NVIDIA's devices cuBLASLt multiplies, with the algorithms of workspace.libraries, which must be there.
/// cuBLASLt reads FP8 operands only with the summed dimension contiguous. So the product first transposes the others in
/// `workspace`; their extents and addresses must be multiples of 16. An operand that is stored transposed already
/// (Operand::transposed) is read as it is; hosts refuse it. FP8 operands with blocks of 32 are decoded to bf16 on
/// devices, an emulation; they must not be transposed.
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

}  // namespace shard8::kernels
