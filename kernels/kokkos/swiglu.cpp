// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/activation.hpp"
#include "kernels/kokkos/dispatch.hpp"
#include "kernels/kokkos/emit.hpp"
#include "kernels/kokkos/fast_math.hpp"
#include "kernels/kokkos/loops.hpp"

namespace shard8::kernels {
namespace {

template <class T, class E>
void forward(const Exec& exec, const Emitter<E>& a, const T* gate_up, std::int64_t rows, std::int64_t ffn) {
  constexpr int kN = kPack<T>;
  const bool fits = a.template fits<kN>(ffn, gate_up);
  for_rows(
      exec, "shard8::kernels::swiglu_forward", rows, KOKKOS_LAMBDA(const Team& team, std::int64_t row) {
        const T *gate = gate_up + row * 2 * ffn, *up = gate + ffn;
        const Sink<E> out = a.open(team, row).from(row * ffn);
        emit_row<kN>(team, out, ffn, fits, [=](auto w, std::int64_t i) {
          const auto g = w.load(gate, i), u = w.load(up, i);
          return out.put(w, i, w.each([&](int j) { return g[j] * fast_sigmoid(g[j]) * u[j]; }));
        });
      });
}

/// silu'(g) = s·(1 + g·(1 − s)), s = sigmoid(g).
template <class T, class E>
void backward(const Exec& exec, const Emitter<E>& dgate_up, const T* da, const T* gate_up, std::int64_t rows,
              std::int64_t ffn) {
  constexpr int kN = kPack<T>;
  const bool fits = dgate_up.template fits<kN>(ffn, da, gate_up);
  for_rows(
      exec, "shard8::kernels::swiglu_backward", rows, KOKKOS_LAMBDA(const Team& team, std::int64_t row) {
        const T *gate = gate_up + row * 2 * ffn, *up = gate + ffn, *dar = da + row * ffn;
        const Sink<E> dgate = dgate_up.open(team, row).from(row * 2 * ffn), dup = dgate.from(ffn);
        emit_row<kN, 1>(team, dgate, ffn, fits, [=](auto w, std::int64_t i) {
          const auto g = w.load(gate, i), u = w.load(up, i), d = w.load(dar, i);
          const auto s = w.each([&](int j) { return fast_sigmoid(g[j]); });
          CastStats stats =
              dgate.put(w, i, w.each([&](int j) { return d[j] * u[j] * (s[j] * (1.0f + g[j] * (1.0f - s[j]))); }));
          stats += dup.put(w, i, w.each([&](int j) { return d[j] * (g[j] * s[j]); }));
          return stats;
        });
      });
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
    dispatch_outputs<T>(exec, kName, a, [&](const auto& out) { forward(exec, out, gate_up.as<T>(), rows, ffn); });
  });
}

void swiglu_backward(const Exec& exec, const Outputs& dgate_up, const tensor::Tensor& da,
                     const tensor::Tensor& gate_up) {
  constexpr auto kName = "swiglu_backward";
  const auto rows = da.rows(), ffn = da.cols();
  require_count(kName, "gate_up", gate_up, 2 * rows * ffn);
  require_outputs(kName, "dgate_up", dgate_up, 2 * rows * ffn);
  dispatch_real(da.dtype, kName, [&]<class T>(std::type_identity<T>) {
    dispatch_outputs<T>(exec, kName, dgate_up,
                        [&](const auto& out) { backward(exec, out, da.as<T>(), gate_up.as<T>(), rows, ffn); });
  });
}

}  // namespace shard8::kernels
