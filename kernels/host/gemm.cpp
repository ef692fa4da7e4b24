// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm.hpp"

#include <Kokkos_Core.hpp>
#include <Kokkos_Profiling_ScopedRegion.hpp>
#include <algorithm>

#include "base/error.hpp"
#include "kernels/host/gemm_product.hpp"
#include "kernels/kokkos/label.hpp"

namespace shard8::kernels {

using Region = Kokkos::Profiling::ScopedRegion;

void gemm_fprop(const tensor::Exec& exec, const tensor::Tensor& y, const tensor::Operand& x, const tensor::Operand& w,
                const tensor::Tensor& bias, const Workspace& workspace, const tensor::Tensor& residual) {
  SHARD8_REQUIRE(residual.empty(), "gemm_fprop: a residual {} is given; on hosts it is added by residual_add",
                 tensor::to_string(residual.shape));
  const Region region(label_of("shard8::kernels::gemm_fprop"));
  multiply(exec, "gemm_fprop", fprop_product(y, x, w, bias), workspace.memory);
}

void gemm_dgrad(const tensor::Exec& exec, const tensor::Tensor& dx, const tensor::Operand& dy, const tensor::Operand& w,
                bool accumulate, const Workspace& workspace) {
  const Region region(label_of("shard8::kernels::gemm_dgrad"));
  multiply(exec, "gemm_dgrad", dgrad_product(dx, dy, w, accumulate), workspace.memory);
}

void gemm_wgrad(const tensor::Exec& exec, const tensor::Tensor& dw, const tensor::Operand& dy, const tensor::Operand& x,
                bool accumulate, const Workspace& workspace) {
  const Region region(label_of("shard8::kernels::gemm_wgrad"));
  multiply(exec, "gemm_wgrad", wgrad_product(dw, dy, x, accumulate), workspace.memory);
}

std::size_t gemm_workspace_bytes(tensor::DType operands, std::int64_t tokens, std::int64_t inputs, std::int64_t outputs,
                                 tensor::Scaling, bool) {
  if (operands == tensor::DType::fp32) return 0;
  const auto t = std::min(tokens, kProductTile), k = std::min(inputs, kProductTile),
             n = std::min(outputs, kProductTile);
  return static_cast<std::size_t>(t * k + k * n + t * n) * sizeof(float);
}

}  // namespace shard8::kernels
