// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm.hpp"

#include <Kokkos_Core.hpp>
#include <Kokkos_Profiling_ScopedRegion.hpp>
#include <algorithm>
#include <array>

#include "kernels/host/gemm_product.hpp"

namespace shard8::kernels {

using Region = Kokkos::Profiling::ScopedRegion;
using tensor::Scaling;

namespace {

// What a product sums over must run along the scaled direction. Activations and gradients are scaled
// by rows of blocks; weights by square blocks, which serve both directions.
constexpr std::array kByRows = {Scaling::tensor, Scaling::row_128, Scaling::row_32};
constexpr std::array kByColumns = {Scaling::tensor, Scaling::column_128, Scaling::column_32};
constexpr std::array kWeightByRows = {Scaling::tensor, Scaling::tile_128, Scaling::row_32};
constexpr std::array kWeightByColumns = {Scaling::tensor, Scaling::tile_128, Scaling::column_32};

}  // namespace

void gemm_fprop(const tensor::Exec& exec, const tensor::Tensor& y, const tensor::Operand& x, const tensor::Operand& w,
                const tensor::Tensor& bias, const tensor::Tensor& workspace) {
  const Region region("shard8::kernels::gemm_fprop");
  multiply(exec, "gemm_fprop",
           {.c = y,
            .a = {.name = "x", .matrix = x, .scalings = kByRows},
            .b = {.name = "w", .matrix = w, .transposed = true, .scalings = kWeightByRows},
            .bias = bias,
            .m = x.rows(),
            .n = w.rows(),
            .k = w.cols()},
           workspace);
}

void gemm_dgrad(const tensor::Exec& exec, const tensor::Tensor& dx, const tensor::Operand& dy, const tensor::Operand& w,
                bool accumulate, const tensor::Tensor& workspace) {
  const Region region("shard8::kernels::gemm_dgrad");
  multiply(exec, "gemm_dgrad",
           {.c = dx,
            .a = {.name = "dy", .matrix = dy, .scalings = kByRows},
            .b = {.name = "w", .matrix = w, .scalings = kWeightByColumns},
            .bias = {},
            .accumulate = accumulate,
            .m = dy.rows(),
            .n = w.cols(),
            .k = w.rows()},
           workspace);
}

void gemm_wgrad(const tensor::Exec& exec, const tensor::Tensor& dw, const tensor::Operand& dy, const tensor::Operand& x,
                bool accumulate, const tensor::Tensor& workspace) {
  const Region region("shard8::kernels::gemm_wgrad");
  SHARD8_REQUIRE(dw.dtype == tensor::DType::fp32, "gemm_wgrad: dw is {}; allowed is fp32", tensor::name_of(dw.dtype));
  multiply(exec, "gemm_wgrad",
           {.c = dw,
            .a = {.name = "dy", .matrix = dy, .transposed = true, .scalings = kByColumns},
            .b = {.name = "x", .matrix = x, .scalings = kByColumns},
            .bias = {},
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
