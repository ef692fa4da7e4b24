// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/check/arguments.hpp"
#include "kernels/kokkos/fast_math.hpp"
#include "kernels/kokkos/loops.hpp"
#include "kernels/moe.hpp"

namespace shard8::kernels {
namespace {

/// a = weight·silu(gate)·up of a row [gate | up].
template <class T>
struct Forward {
  const T* gate_up;
  const float* weights;
  std::int64_t ffn;
  float weight = 0;  ///< of the row

  KOKKOS_FORCEINLINE_FUNCTION Forward row(std::int64_t r) const {
    return {gate_up + r * 2 * ffn, weights, ffn, weights[r]};
  }
  template <class W>
  KOKKOS_FORCEINLINE_FUNCTION auto compute(const W& w, std::int64_t i) const {
    const auto gate = w.load(gate_up, i), up = w.load(gate_up + ffn, i);
    return w.each([&](int j) { return gate[j] * fast_sigmoid_for<T>(gate[j]) * up[j] * weight; });
  }
};

/// [dgate | dup] and a of forward, and the row's part of dweight. silu'(g) = s·(1 + g·(1 − s)), s = sigmoid(g).
template <class T>
struct Backward {
  const T *da, *gate_up;
  const float* weights;
  std::int64_t ffn;
  float weight = 0;  ///< of the row

  template <class V>
  struct Results {
    V dgate, dup, a;
    float dweight;
  };
  KOKKOS_FORCEINLINE_FUNCTION Backward row(std::int64_t r) const {
    return {da + r * ffn, gate_up + r * 2 * ffn, weights, ffn, weights[r]};
  }
  template <class W>
  KOKKOS_FORCEINLINE_FUNCTION auto compute(const W& w, std::int64_t i) const {
    const auto g = w.load(gate_up, i), u = w.load(gate_up + ffn, i), d = w.load(da, i);
    const auto s = w.each([&](int j) { return fast_sigmoid_for<T>(g[j]); });
    const auto unweighted = w.each([&](int j) { return g[j] * s[j] * u[j]; });
    return Results<Values<W::kCount>>{
        w.each([&](int j) { return d[j] * weight * u[j] * (s[j] * (1.0f + g[j] * (1.0f - s[j]))); }),
        w.each([&](int j) { return d[j] * weight * (g[j] * s[j]); }),
        w.each([&](int j) { return unweighted[j] * weight; }), w.sum([&](int j) { return d[j] * unweighted[j]; })};
  }
};

/// Threads of a team for rows of experts, which are short: whole warps, and no more than have something to load.
int threads_for(std::int64_t packs) {
  constexpr std::int64_t kWarp = 32;
  return static_cast<int>(std::clamp<std::int64_t>((packs + kWarp - 1) / kWarp * kWarp, kWarp, kTeamThreads));
}

template <class T>
void forward(const Exec& exec, T* a, const Forward<T>& formula, std::int64_t rows, const std::int32_t* end) {
  constexpr int kN = kPack<T>;
  const std::int64_t ffn = formula.ffn;
  const bool fits = packs_fit<kN>(ffn, a, formula.gate_up);
  for_rows(
      exec, "shard8::kernels::moe_swiglu_forward", rows,
      SHARD8_LAMBDA(const Team& team, std::int64_t row) {
        if (end != nullptr && row >= *end) return;
        const Forward<T> of = formula.row(row);
        row_packs<kN>(team, ffn, fits,
                      [=, out = a + row * ffn](auto w, std::int64_t i) { w.store(out, i, of.compute(w, i)); });
      },
      threads_for(ffn / kN));
}

/// Writes dgate_up, dweights and, unless it is null, a. The sum of a row is computed in the pass that writes the row.
template <class T>
void backward(const Exec& exec, T* dgate_up, float* dweights, T* a, const Backward<T>& formula, std::int64_t rows,
              const std::int32_t* end) {
  constexpr int kN = kPack<T>;
  const std::int64_t ffn = formula.ffn;
  const bool fits = packs_fit<kN>(ffn, dgate_up, a, formula.da, formula.gate_up);
  for_rows(
      exec, "shard8::kernels::moe_swiglu_backward", rows,
      SHARD8_LAMBDA(const Team& team, std::int64_t row) {
        if (end != nullptr && row >= *end) return;
        const Backward<T> of = formula.row(row);
        T *const dgate = dgate_up + row * 2 * ffn, *const out = a == nullptr ? nullptr : a + row * ffn;
        const float sum = row_sum<kN, 1>(team, ffn, fits, [=](auto w, std::int64_t i) {
          const auto results = of.compute(w, i);
          w.store(dgate, i, results.dgate);
          w.store(dgate + ffn, i, results.dup);
          if (out != nullptr) w.store(out, i, results.a);
          return results.dweight;
        });
        once(team, [=] { dweights[row] = sum; });
      },
      threads_for(ffn / kN));
}

}  // namespace

void moe_swiglu_forward(const Exec& exec, const tensor::Tensor& a, const tensor::Tensor& gate_up,
                        const tensor::Tensor& weights, const tensor::Tensor& end) {
  constexpr auto kName = "moe_swiglu_forward";
  const auto rows = a.rows(), ffn = a.cols();
  require_count(kName, "gate_up", gate_up, 2 * rows * ffn);
  require_count(kName, "weights", weights, rows);
  dispatch_real(a.dtype, kName, [&]<class T>(std::type_identity<T>) {
    forward(exec, a.as<T>(), Forward<T>{gate_up.as<T>(), weights.as<float>(), ffn}, rows, row_end(kName, end));
  });
}

void moe_swiglu_backward(const Exec& exec, const tensor::Tensor& dgate_up, const tensor::Tensor& dweights,
                         const tensor::Tensor& da, const tensor::Tensor& gate_up, const tensor::Tensor& weights,
                         const tensor::Tensor& recomputed, const tensor::Tensor& end) {
  constexpr auto kName = "moe_swiglu_backward";
  const auto rows = da.rows(), ffn = da.cols();
  require_count(kName, "dgate_up", dgate_up, 2 * rows * ffn);
  require_count(kName, "dweights", dweights, rows);
  require_count(kName, "gate_up", gate_up, 2 * rows * ffn);
  require_count(kName, "weights", weights, rows);
  if (!recomputed.empty()) require_count(kName, "recomputed", recomputed, rows * ffn);
  dispatch_real(da.dtype, kName, [&]<class T>(std::type_identity<T>) {
    backward(exec, dgate_up.as<T>(), dweights.as<float>(), recomputed.empty() ? nullptr : recomputed.as<T>(),
             Backward<T>{da.as<T>(), gate_up.as<T>(), weights.as<float>(), ffn}, rows, row_end(kName, end));
  });
}

}  // namespace shard8::kernels
