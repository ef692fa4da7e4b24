// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/elementwise.hpp"

#include <algorithm>

#include "kernels/check/arguments.hpp"
#include "kernels/kokkos/cast_tiles.hpp"
#include "kernels/kokkos/fast_math.hpp"
#include "kernels/kokkos/loops.hpp"
#include "kernels/kokkos/write_outputs.hpp"
#include "kernels/kokkos/write_panels.hpp"
#include "kernels/moe.hpp"

namespace shard8::kernels {
namespace {

template <class T, class W, class Lanes>
KOKKOS_FORCEINLINE_FUNCTION auto activated(const W& w, const Lanes& g, const Lanes& u) {
  return w.each([&](int j) { return g[j] * fast_sigmoid_for<T>(g[j]) * u[j]; });
}

/// a = silu(gate)·up of a row [gate | up].
template <class T>
struct Forward {
  using Type = T;
  static constexpr int kInputs = 2, kParts = 1;
  const T* gate_up;
  std::int64_t ffn;

  template <class Lanes>
  struct In {
    Lanes gate, up;
  };
  KOKKOS_FORCEINLINE_FUNCTION Forward row(std::int64_t r) const { return {gate_up + r * 2 * ffn, ffn}; }
  template <class W>
  KOKKOS_FORCEINLINE_FUNCTION auto load(const W& w, std::int64_t i) const {
    return In<typename W::template Lanes<T>>{w.load(gate_up, i), w.load(gate_up + ffn, i)};
  }
  template <class W, class Lanes>
  KOKKOS_FORCEINLINE_FUNCTION auto compute(const W& w, const In<Lanes>& in) const {
    return Parts<1, Values<W::kCount>>{{activated<T>(w, in.gate, in.up)}};
  }
};

/// [dgate | dup]; silu'(g) = s·(1 + g·(1 − s)), s = sigmoid(g).
template <class T>
struct Backward {
  using Type = T;
  static constexpr int kInputs = 3, kParts = 2;
  const T *da, *gate_up;
  std::int64_t ffn;

  template <class Lanes>
  struct In {
    Lanes gate, up, da;
  };
  KOKKOS_FORCEINLINE_FUNCTION Backward row(std::int64_t r) const { return {da + r * ffn, gate_up + r * 2 * ffn, ffn}; }
  template <class W>
  KOKKOS_FORCEINLINE_FUNCTION auto load(const W& w, std::int64_t i) const {
    return In<typename W::template Lanes<T>>{w.load(gate_up, i), w.load(gate_up + ffn, i), w.load(da, i)};
  }
  template <class W, class Lanes>
  KOKKOS_FORCEINLINE_FUNCTION auto compute(const W& w, const In<Lanes>& in) const {
    const Lanes &g = in.gate, &u = in.up, &d = in.da;
    const auto s = w.each([&](int j) { return fast_sigmoid_for<T>(g[j]); });
    return Parts<2, Values<W::kCount>>{
        {w.each([&](int j) { return d[j] * u[j] * (s[j] * (1.0f + g[j] * (1.0f - s[j]))); }),
         w.each([&](int j) { return d[j] * (g[j] * s[j]); })}};
  }
  template <class W, class Lanes>
  KOKKOS_FORCEINLINE_FUNCTION auto recompute(const W& w, const In<Lanes>& in) const {
    return activated<T>(w, in.gate, in.up);
  }
};

/// Writes the outputs. Returns whether the transposed cast was written as well.
template <class T, class E>
bool forward(const Exec& exec, const OutputWriter<E>& a, const T* gate_up, std::int64_t rows, std::int64_t ffn) {
  constexpr int kN = kPack<T>;
  constexpr auto kLabel = "shard8::kernels::swiglu_forward";
  const bool fits = a.template fits<kN>(ffn, gate_up);
  const Forward<T> formula{gate_up, ffn};
  if (write_tiles(exec, kLabel, a, formula, rows, ffn, fits)) return true;
  for_rows(
      exec, kLabel, rows, SHARD8_LAMBDA(const Team& team, std::int64_t row) {
        const Forward<T> of = formula.row(row);
        const RowWriter<E> out = a.open(team, row).from(row * ffn);
        write_row<kN>(team, out, ffn, fits,
                      [=](auto w, std::int64_t i) { return out.put(w, i, of.compute(w, of.load(w, i)).part[0]); });
      });
  return false;
}

/// Writes the outputs. Returns whether the transposed cast was written as well.
template <class T, class E>
bool backward(const Exec& exec, const OutputWriter<E>& dgate_up, const T* da, const tensor::Tensor& input,
              std::int64_t rows, std::int64_t ffn, const Outputs& recomputed) {
  constexpr int kN = kPack<T>;
  constexpr auto kLabel = "shard8::kernels::swiglu_backward";
  const T* const gate_up = input.as<T>();
  const bool fits = dgate_up.template fits<kN>(ffn, da, gate_up);
  const Backward<T> formula{da, gate_up, ffn};
  if (!asks_for_nothing(recomputed)) {
    if (write_tiles_and_recomputed(exec, kLabel, dgate_up, formula, rows, ffn, fits, recomputed)) return E::kCast;
    swiglu_forward(exec, recomputed, input);
  }
  if (write_tiles(exec, kLabel, dgate_up, formula, rows, ffn, fits)) return true;
  for_rows(
      exec, kLabel, rows, SHARD8_LAMBDA(const Team& team, std::int64_t row) {
        const Backward<T> of = formula.row(row);
        const RowWriter<E> dgate = dgate_up.open(team, row).from(row * 2 * ffn), dup = dgate.from(ffn);
        write_row<kN, 1>(team, dgate, ffn, fits, [=](auto w, std::int64_t i) {
          const auto result = of.compute(w, of.load(w, i));
          CastStats stats = dgate.put(w, i, result.part[0]);
          stats += dup.put(w, i, result.part[1]);
          return stats;
        });
      });
  return false;
}

}  // namespace

void swiglu_forward(const Exec& exec, const Outputs& a, const tensor::Tensor& gate_up) {
  constexpr auto kName = "swiglu_forward";
  const auto& result = result_of(a);
  const auto rows = result.empty() ? gate_up.rows() : result.rows();
  const auto ffn = result.empty() ? gate_up.cols() / 2 : result.cols();
  require_outputs(kName, "a", a, rows * ffn);
  require_count(kName, "gate_up", gate_up, 2 * rows * ffn);
  dispatch_real(gate_up.dtype, kName, [&]<class T>(std::type_identity<T>) {
    const Forward<T> formula{gate_up.as<T>(), ffn};
    if (write_panels(exec, "shard8::kernels::swiglu_forward", a, formula, rows, ffn,
                     packs_fit<kPack<T>>(ffn, formula.gate_up)))
      return;
    dispatch_outputs<T>(exec, kName, a,
                        [&](const auto& out) { return forward(exec, out, gate_up.as<T>(), rows, ffn); });
  });
}

void swiglu_backward(const Exec& exec, const Outputs& dgate_up, const tensor::Tensor& da, const tensor::Tensor& gate_up,
                     const Outputs& recomputed) {
  constexpr auto kName = "swiglu_backward";
  const auto rows = da.rows(), ffn = da.cols();
  require_count(kName, "gate_up", gate_up, 2 * rows * ffn);
  require_outputs(kName, "dgate_up", dgate_up, 2 * rows * ffn);
  if (!asks_for_nothing(recomputed)) require_outputs(kName, "recomputed", recomputed, rows * ffn);
  dispatch_real(da.dtype, kName, [&]<class T>(std::type_identity<T>) {
    const Backward<T> formula{da.as<T>(), gate_up.as<T>(), ffn};
    if (write_gradient_panels(exec, "shard8::kernels::swiglu_backward", dgate_up, formula, rows, ffn,
                              packs_fit<kPack<T>>(ffn, formula.da, formula.gate_up), recomputed))
      return;
    dispatch_outputs<T>(exec, kName, dgate_up, [&](const auto& out) {
      return backward(exec, out, da.as<T>(), gate_up, rows, ffn, recomputed);
    });
  });
}

namespace {

/// a = weight·silu(gate)·up of a row [gate | up].
template <class T>
struct WeightedForward {
  const T* gate_up;
  const float* weights;
  std::int64_t ffn;
  float weight = 0;  ///< of the row

  KOKKOS_FORCEINLINE_FUNCTION WeightedForward row(std::int64_t r) const {
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
struct WeightedBackward {
  const T *da, *gate_up;
  const float* weights;
  std::int64_t ffn;
  float weight = 0;  ///< of the row

  template <class V>
  struct Results {
    V dgate, dup, a;
    float dweight;
  };
  KOKKOS_FORCEINLINE_FUNCTION WeightedBackward row(std::int64_t r) const {
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
void weighted_forward(const Exec& exec, T* a, const WeightedForward<T>& formula, std::int64_t rows,
                      const std::int32_t* end) {
  constexpr int kN = kPack<T>;
  const std::int64_t ffn = formula.ffn;
  const bool fits = packs_fit<kN>(ffn, a, formula.gate_up);
  for_rows(
      exec, "shard8::kernels::moe_swiglu_forward", rows,
      SHARD8_LAMBDA(const Team& team, std::int64_t row) {
        if (end != nullptr && row >= *end) return;
        const WeightedForward<T> of = formula.row(row);
        row_packs<kN>(team, ffn, fits,
                      [=, out = a + row * ffn](auto w, std::int64_t i) { w.store(out, i, of.compute(w, i)); });
      },
      threads_for(ffn / kN));
}

/// Writes dgate_up, dweights and, unless it is null, a. The sum of a row is computed in the pass that writes the row.
template <class T>
void weighted_backward(const Exec& exec, T* dgate_up, float* dweights, T* a, const WeightedBackward<T>& formula,
                       std::int64_t rows, const std::int32_t* end) {
  constexpr int kN = kPack<T>;
  const std::int64_t ffn = formula.ffn;
  const bool fits = packs_fit<kN>(ffn, dgate_up, a, formula.da, formula.gate_up);
  for_rows(
      exec, "shard8::kernels::moe_swiglu_backward", rows,
      SHARD8_LAMBDA(const Team& team, std::int64_t row) {
        if (end != nullptr && row >= *end) return;
        const WeightedBackward<T> of = formula.row(row);
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
    weighted_forward(exec, a.as<T>(), WeightedForward<T>{gate_up.as<T>(), weights.as<float>(), ffn}, rows,
                     row_end(kName, end));
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
    weighted_backward(exec, dgate_up.as<T>(), dweights.as<float>(), recomputed.empty() ? nullptr : recomputed.as<T>(),
                      WeightedBackward<T>{da.as<T>(), gate_up.as<T>(), weights.as<float>(), ffn}, rows,
                      row_end(kName, end));
  });
}

}  // namespace shard8::kernels
