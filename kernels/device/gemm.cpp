// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm.hpp"

#include "kernels/check/gemm.hpp"
#include "kernels/cuda/gemm.hpp"
#include "kernels/device/parts.hpp"
#include "kernels/planned/device_memory.hpp"
#include "tensor/cuda/stream.hpp"

namespace shard8::kernels {

using tensor::cuda::stream_of;

void gemm_fprop(const tensor::Exec& exec, const tensor::Tensor& y, const tensor::Operand& x, const tensor::Operand& w,
                const tensor::Tensor& bias, const Workspace& workspace, const tensor::Tensor& residual) {
  check_product("gemm_fprop", fprop_product(y, x, w, bias));
  cuda::gemm_fprop(parts_of(workspace, "gemm_fprop").gemm, stream_of(exec), y, x, w, bias, workspace.memory, residual);
}

void gemm_dgrad(const tensor::Exec& exec, const tensor::Tensor& dx, const tensor::Operand& dy, const tensor::Operand& w,
                bool accumulate, const Workspace& workspace) {
  check_product("gemm_dgrad", dgrad_product(dx, dy, w, accumulate));
  cuda::gemm_dgrad(parts_of(workspace, "gemm_dgrad").gemm, stream_of(exec), dx, dy, w, accumulate, workspace.memory);
}

void gemm_wgrad(const tensor::Exec& exec, const tensor::Tensor& dw, const tensor::Operand& dy, const tensor::Operand& x,
                bool accumulate, const Workspace& workspace) {
  check_product("gemm_wgrad", wgrad_product(dw, dy, x, accumulate));
  cuda::gemm_wgrad(parts_of(workspace, "gemm_wgrad").gemm, stream_of(exec), dw, dy, x, accumulate, workspace.memory);
}

std::size_t gemm_workspace_bytes(tensor::DType operands, std::int64_t tokens, std::int64_t inputs, std::int64_t outputs,
                                 tensor::Scaling scaling, bool transposed) {
  return cuda::gemm_memory_bytes(operands, tokens, inputs, outputs, scaling, transposed);
}

}  // namespace shard8::kernels
