// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm.hpp"

#include <Kokkos_Core.hpp>
#include <Kokkos_Profiling_ScopedRegion.hpp>
#include <algorithm>

#include "kernels/host/gemm_product.hpp"

namespace shard8::kernels {

using Region = Kokkos::Profiling::ScopedRegion;

void gemm_fprop(const tensor::Exec& exec, const tensor::Tensor& y, const tensor::Tensor& x, const tensor::Tensor& w,
                const tensor::Tensor& bias, const tensor::Tensor& workspace) {
  const Region region("shard8::kernels::gemm_fprop");
  multiply(exec, "gemm_fprop",
           {.c = y, .a = x, .b = w, .bias = bias, .b_transposed = true, .m = x.rows(), .n = w.rows(), .k = w.cols()},
           workspace);
}

void gemm_dgrad(const tensor::Exec& exec, const tensor::Tensor& dx, const tensor::Tensor& dy, const tensor::Tensor& w,
                bool accumulate, const tensor::Tensor& workspace) {
  const Region region("shard8::kernels::gemm_dgrad");
  multiply(
      exec, "gemm_dgrad",
      {.c = dx, .a = dy, .b = w, .bias = {}, .accumulate = accumulate, .m = dy.rows(), .n = w.cols(), .k = w.rows()},
      workspace);
}

void gemm_wgrad(const tensor::Exec& exec, const tensor::Tensor& dw, const tensor::Tensor& dy, const tensor::Tensor& x,
                bool accumulate, const tensor::Tensor& workspace) {
  const Region region("shard8::kernels::gemm_wgrad");
  SHARD8_REQUIRE(dw.dtype == tensor::DType::fp32, "gemm_wgrad: dw is {}; allowed is fp32", tensor::name_of(dw.dtype));
  multiply(exec, "gemm_wgrad",
           {.c = dw,
            .a = dy,
            .b = x,
            .bias = {},
            .a_transposed = true,
            .accumulate = accumulate,
            .m = dy.cols(),
            .n = x.cols(),
            .k = x.rows()},
           workspace);
}

std::size_t gemm_workspace_bytes(tensor::DType operands, std::int64_t tokens, std::int64_t inputs,
                                 std::int64_t outputs) {
  if (operands == tensor::DType::fp32) return 0;
  const auto t = std::min(tokens, kProductTile), k = std::min(inputs, kProductTile),
             n = std::min(outputs, kProductTile);
  return static_cast<std::size_t>(t * k + k * n + t * n) * sizeof(float);
}

}  // namespace shard8::kernels
