// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/host/gemm_product.hpp"

#include <algorithm>

#include "kernels/host/blas.hpp"
#include "kernels/kokkos/dispatch.hpp"
#include "kernels/kokkos/loops.hpp"

namespace shard8::kernels {
namespace {

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

/// One operand's tile in fp32. Asked twice in a row for the same tile, it decodes once.
class DecodedTile {
 public:
  DecodedTile(const tensor::Tensor& source, bool transposed, float* memory)
      : data_(source.as<BFloat16>()), stride_(source.cols()), transposed_(transposed), memory_(memory) {}

  /// Rows [i, i + ni) and columns [j, j + nj) of op(source).
  BlasOperand get(const Exec& exec, std::int64_t i, std::int64_t ni, std::int64_t j, std::int64_t nj) {
    const auto rows = transposed_ ? nj : ni, cols = transposed_ ? ni : nj;
    const BFloat16* from = transposed_ ? data_ + j * stride_ + i : data_ + i * stride_ + j;
    if (from != held_) {
      held_ = from;
      for_rows(exec, "shard8::kernels::gemm_decode", rows,
               [to = memory_, stride = stride_, from, cols](const Team& team, std::int64_t row) {
                 const BFloat16* in = from + row * stride;
                 float* out = to + row * cols;
                 row_for(team, cols, [=](std::int64_t c) { out[c] = static_cast<float>(in[c]); });
               });
    }
    return {memory_, cols, transposed_};
  }

 private:
  const BFloat16* data_;
  std::int64_t stride_;
  bool transposed_;
  float* memory_;
  const BFloat16* held_ = nullptr;
};

void round_tile(const Exec& exec, BFloat16* c, std::int64_t stride, const float* tile, std::int64_t m, std::int64_t n) {
  for_rows(exec, "shard8::kernels::gemm_round", m, [=](const Team& team, std::int64_t row) {
    const float* in = tile + row * n;
    BFloat16* out = c + row * stride;
    row_for(team, n, [=](std::int64_t i) { out[i] = static_cast<BFloat16>(in[i]); });
  });
}

void multiply_fp32(const Exec& exec, const char* kernel, const Product& p) {
  SHARD8_REQUIRE(p.c.dtype == tensor::DType::fp32, "{}: fp32 operands need an fp32 output, not {}", kernel,
                 tensor::name_of(p.c.dtype));
  auto* c = p.c.as<float>();
  const auto* bias = p.bias.empty() ? nullptr : p.bias.as<float>();
  const bool set = bias != nullptr || (p.k == 0 && !p.accumulate);
  if (set) set_rows(exec, c, p.n, bias, p.m, p.n);
  if (p.k == 0) return;
  sgemm(c, p.n, {p.a.as<float>(), p.a.cols(), p.a_transposed}, {p.b.as<float>(), p.b.cols(), p.b_transposed}, p.m, p.n,
        p.k, set || p.accumulate ? 1.0f : 0.0f);
}

void multiply_bf16(const Exec& exec, const char* kernel, const Product& p, const tensor::Tensor& workspace) {
  const auto tile_m = std::min(p.m, kProductTile), tile_n = std::min(p.n, kProductTile),
             tile_k = std::min(p.k, kProductTile);
  const bool rounds = p.c.dtype == tensor::DType::bf16;
  const auto floats = tile_m * tile_k + tile_k * tile_n + (rounds ? tile_m * tile_n : 0);
  require_workspace(kernel, workspace, static_cast<std::size_t>(floats) * sizeof(float));
  auto* memory = reinterpret_cast<float*>(workspace.as<std::uint8_t>());
  DecodedTile a(p.a, p.a_transposed, memory), b(p.b, p.b_transposed, memory + tile_m * tile_k);
  float* rounded_from = memory + tile_m * tile_k + tile_k * tile_n;
  const auto* bias = p.bias.empty() ? nullptr : p.bias.as<BFloat16>();
  for (std::int64_t j = 0; j < p.n; j += tile_n) {
    const auto nj = std::min(tile_n, p.n - j);
    for (std::int64_t i = 0; i < p.m; i += tile_m) {
      const auto ni = std::min(tile_m, p.m - i);
      float* c = rounds ? rounded_from : p.c.as<float>() + i * p.n + j;
      const auto stride = rounds ? nj : p.n;
      const bool set = bias != nullptr || (p.k == 0 && !p.accumulate);
      if (set) set_rows(exec, c, stride, bias == nullptr ? bias : bias + j, ni, nj);
      float beta = set || p.accumulate ? 1.0f : 0.0f;
      for (std::int64_t l = 0; l < p.k; l += tile_k) {
        const auto nl = std::min(tile_k, p.k - l);
        sgemm(c, stride, a.get(exec, i, ni, l, nl), b.get(exec, l, nl, j, nj), ni, nj, nl, beta);
        beta = 1.0f;
      }
      if (rounds) round_tile(exec, p.c.as<BFloat16>() + i * p.n + j, p.n, c, ni, nj);
    }
  }
}

}  // namespace

void multiply(const Exec& exec, const char* kernel, const Product& p, const tensor::Tensor& workspace) {
  static_assert(kHostExec, "host products work on host memory");
  SHARD8_REQUIRE(p.a.dtype == p.b.dtype, "{}: operands of {} and {}; allowed is one dtype", kernel,
                 tensor::name_of(p.a.dtype), tensor::name_of(p.b.dtype));
  SHARD8_REQUIRE(!p.accumulate || p.c.dtype == tensor::DType::fp32, "{}: cannot accumulate in {}; allowed is fp32",
                 kernel, tensor::name_of(p.c.dtype));
  require_count(kernel, "output", p.c, p.m * p.n);
  require_count(kernel, "first operand", p.a, p.m * p.k);
  require_count(kernel, "second operand", p.b, p.k * p.n);
  if (!p.bias.empty()) require_count(kernel, "bias", p.bias, p.n);
  if (p.m == 0 || p.n == 0) return;
  if (p.a.dtype == tensor::DType::bf16) {
    multiply_bf16(exec, kernel, p, workspace);
  } else {
    multiply_fp32(exec, kernel, p);
  }
}

}  // namespace shard8::kernels
