// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/grouped_gemm.hpp"

#include "kernels/check/grouped_gemm.hpp"
#include "kernels/gemm.hpp"

namespace shard8::kernels {

using tensor::Operand;
using tensor::Tensor;

namespace {

KnownGroups known(const RowGroups& groups) {
  const auto values = [](const Tensor& t) {
    return std::span<const std::int32_t>(t.as<std::int32_t>(), static_cast<std::size_t>(t.count()));
  };
  return {values(groups.first), values(groups.rows)};
}

}  // namespace

void grouped_gemm_fprop(const tensor::Exec& exec, const Tensor& y, const Operand& x, const Operand& w,
                        const RowGroups& groups, const Workspace& workspace) {
  check_grouped_fprop(y, x, w, groups);
  multiply_each_fprop(exec, y, x, w, known(groups), workspace);
}

void grouped_gemm_dgrad(const tensor::Exec& exec, const Tensor& dx, const Operand& dy, const Operand& w,
                        const RowGroups& groups, const Workspace& workspace) {
  check_grouped_dgrad(dx, dy, w, groups);
  multiply_each_dgrad(exec, dx, dy, w, known(groups), workspace);
}

void grouped_gemm_wgrad(const tensor::Exec& exec, const Tensor& dw, const Operand& dy, const Operand& x,
                        const RowGroups& groups, bool accumulate, const Workspace& workspace) {
  check_grouped_wgrad(dw, dy, x, groups, accumulate);
  multiply_each_wgrad(exec, dw, dy, x, known(groups), accumulate, workspace);
}

std::size_t grouped_gemm_workspace_bytes(tensor::DType operands, std::int64_t, std::int64_t rows, std::int64_t inputs,
                                         std::int64_t outputs, tensor::Scaling scaling, bool transposed) {
  return gemm_workspace_bytes(operands, rows, inputs, outputs, scaling, transposed);
}

bool grouped_gemm_waits(tensor::DType, tensor::Scaling, tensor::DType, std::int64_t, std::int64_t) { return true; }

}  // namespace shard8::kernels
