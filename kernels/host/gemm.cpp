// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm.hpp"

#include <Kokkos_Core.hpp>
#include <Kokkos_Profiling_ScopedRegion.hpp>
#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "kernels/check/arguments.hpp"
#include "kernels/check/gemm.hpp"
#include "kernels/host/decoded_tile.hpp"
#include "kernels/kokkos/label.hpp"
#include "kernels/kokkos/loops.hpp"

namespace shard8::kernels {
namespace {

using Region = Kokkos::Profiling::ScopedRegion;
using tensor::BFloat16;

/// c (m, n) = bias on every row, or 0.
template <class B>
void set_rows(const Exec& exec, float* c, std::int64_t stride, const B* bias, std::int64_t m, std::int64_t n) {
  for_rows(exec, "shard8::kernels::gemm_bias", m, [=](const Team& team, std::int64_t row) {
    float* out = c + row * stride;
    if (bias != nullptr) {
      row_for(team, n, [=](std::int64_t i) { out[i] = static_cast<float>(bias[i]); });
    } else {
      row_for(team, n, [=](std::int64_t i) { out[i] = 0; });
    }
  });
}

void round_tile(const Exec& exec, BFloat16* c, std::int64_t stride, const float* tile, std::int64_t m, std::int64_t n) {
  for_rows(exec, "shard8::kernels::gemm_round", m, [=](const Team& team, std::int64_t row) {
    const float* in = tile + row * n;
    BFloat16* out = c + row * stride;
    row_for(team, n, [=](std::int64_t i) { out[i] = static_cast<BFloat16>(in[i]); });
  });
}

void multiply_fp32(const Exec& exec, const Product& p) {
  auto* c = p.c.as<float>();
  const auto* bias = p.bias.empty() ? nullptr : p.bias.as<float>();
  const bool set = bias != nullptr || (p.k == 0 && !p.accumulate);
  if (set) set_rows(exec, c, p.n, bias, p.m, p.n);
  if (p.k == 0) return;
  const tensor::Tensor &a = p.a.matrix.data, &b = p.b.matrix.data;
  sgemm(c, p.n, {a.as<float>(), a.cols(), p.a.transposed}, {b.as<float>(), b.cols(), p.b.transposed}, p.m, p.n, p.k,
        1.0f, set || p.accumulate ? 1.0f : 0.0f);
}

/// The scales of factors with one scale each. The product of the two scales multiplies the sum. If the product is not a
/// normal number, the first scale multiplies the elements of the first factor instead: digits, or a NaN, would be lost
/// otherwise.
struct TensorScales {
  float first = 1.0f, sum = 1.0f;
};
TensorScales tensor_scales(const Product& p) {
  const auto scale = [](const tensor::Operand& m) {
    return m.scaling == tensor::Scaling::tensor ? *m.scale_inv.as<float>() : 1.0f;
  };
  const float a = scale(p.a.matrix), b = scale(p.b.matrix);
  const bool apart = p.a.matrix.scaling == tensor::Scaling::tensor && !std::isnormal(a * b);
  return apart ? TensorScales{a, b} : TensorScales{1.0f, a * b};
}

/// The tiles of the output. The tiles are computed in fp32 and written in the output's dtype.
class ResultTiles {
 public:
  ResultTiles(const Product& p, float* memory) : p_(p), memory_(p.c.dtype == tensor::DType::bf16 ? memory : nullptr) {}

  /// Begins the tile (ni, nj) at (i, j) and returns its memory, in rows of `stride()` elements. If `set`, the tile
  /// holds the bias, or zeros.
  float* begin(const Exec& exec, std::int64_t i, std::int64_t ni, std::int64_t j, std::int64_t nj, bool set) {
    stride_ = memory_ != nullptr ? nj : p_.n;
    float* c = memory_ != nullptr ? memory_ : p_.c.as<float>() + i * p_.n + j;
    if (!set) return c;
    if (p_.bias.empty()) {
      set_rows<float>(exec, c, stride_, nullptr, ni, nj);
    } else {
      dispatch_real(p_.bias.dtype, "gemm_bias",
                    [&]<class T>(std::type_identity<T>) { set_rows(exec, c, stride_, p_.bias.as<T>() + j, ni, nj); });
    }
    return c;
  }
  /// Writes the tile to the output.
  void end(const Exec& exec, std::int64_t i, std::int64_t ni, std::int64_t j, std::int64_t nj) const {
    if (memory_ != nullptr) round_tile(exec, p_.c.as<BFloat16>() + i * p_.n + j, p_.n, memory_, ni, nj);
  }
  std::int64_t stride() const { return stride_; }

 private:
  const Product& p_;
  float* memory_;
  std::int64_t stride_ = 0;
};

void multiply_decoded(const Exec& exec, const char* kernel, const Product& p, const tensor::Tensor& workspace) {
  const auto tile_m = std::min(p.m, kProductTile), tile_n = std::min(p.n, kProductTile),
             tile_k = std::min(p.k, kProductTile);
  const auto of_a = tile_m * tile_k, of_b = tile_k * tile_n;
  const auto floats = of_a + of_b + (p.c.dtype == tensor::DType::bf16 ? tile_m * tile_n : 0);
  require_workspace(kernel, workspace, static_cast<std::size_t>(floats) * sizeof(float));
  auto* memory = reinterpret_cast<float*>(workspace.as<std::uint8_t>());
  const TensorScales scales = tensor_scales(p);
  DecodedTile a(p.a, scales.first, memory), b(p.b, 1.0f, memory + of_a);
  ResultTiles result(p, memory + of_a + of_b);
  const bool set = !p.bias.empty() || (p.k == 0 && !p.accumulate);
  for (std::int64_t j = 0; j < p.n; j += tile_n) {
    const auto nj = std::min(tile_n, p.n - j);
    for (std::int64_t i = 0; i < p.m; i += tile_m) {
      const auto ni = std::min(tile_m, p.m - i);
      float* c = result.begin(exec, i, ni, j, nj, set);
      float beta = set || p.accumulate ? 1.0f : 0.0f;
      for (std::int64_t l = 0; l < p.k; l += tile_k) {
        const auto nl = std::min(tile_k, p.k - l);
        sgemm(c, result.stride(), a.get(exec, i, ni, l, nl), b.get(exec, l, nl, j, nj), ni, nj, nl, scales.sum, beta);
        beta = 1.0f;
      }
      result.end(exec, i, ni, j, nj);
    }
  }
}

/// Computes a product on the host. fp32 matrices are multiplied in place, others through fp32 tiles in `workspace`.
/// Throws Error(failed) as check_product(), for a workspace that is too small, and for an operand that is stored
/// transposed.
void multiply(const Exec& exec, const char* kernel, const Product& p, const tensor::Tensor& workspace) {
  static_assert(kHostExec, "host products work on host memory");
  check_product(kernel, p);
  for (const Factor* f : {&p.a, &p.b}) {
    SHARD8_REQUIRE(!f->matrix.transposed, "{}: {} ({}, {}) lies transposed; hosts read matrices as they are", kernel,
                   f->name, f->matrix.rows(), f->matrix.cols());
  }
  if (p.m == 0 || p.n == 0) return;
  if (p.a.matrix.data.dtype == tensor::DType::fp32) {
    multiply_fp32(exec, p);
  } else {
    multiply_decoded(exec, kernel, p, workspace);
  }
}

}  // namespace

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
