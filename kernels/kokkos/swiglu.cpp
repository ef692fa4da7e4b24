// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/activation.hpp"
#include "kernels/check/arguments.hpp"
#include "kernels/kokkos/cast_tiles.hpp"
#include "kernels/kokkos/fast_math.hpp"
#include "kernels/kokkos/loops.hpp"
#include "kernels/kokkos/write_outputs.hpp"
#include "kernels/kokkos/write_panels.hpp"

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

}  // namespace shard8::kernels
