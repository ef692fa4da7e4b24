// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/activation.hpp"
#include "kernels/kokkos/dispatch.hpp"
#include "kernels/kokkos/emit.hpp"
#include "kernels/kokkos/fast_math.hpp"
#include "kernels/kokkos/loops.hpp"

namespace shard8::kernels {
namespace {

// (1 + tanh(u))/2 = sigmoid(2u), so gelu(x) = x·sigmoid(2u), u = sqrt(2/π)·(x + 0.044715·x³).
constexpr float kTwoRootTwoOverPi = 1.5957691216057308f;
constexpr float kCubic = 0.044715f;

template <class T, class E>
struct Forward {
  const T* x;
  template <class W>
  KOKKOS_FORCEINLINE_FUNCTION CastStats operator()(const Sink<E>& out, const W& w, std::int64_t i) const {
    const auto in = w.load(x, i);
    return out.put(w, i, w.each([&](int j) {
      const float v = in[j];
      return v * fast_sigmoid(kTwoRootTwoOverPi * multiply_add(kCubic * v * v, v, v));
    }));
  }
};

template <class T, class E>
struct Backward {
  const T *da, *x;
  template <class W>
  KOKKOS_FORCEINLINE_FUNCTION CastStats operator()(const Sink<E>& out, const W& w, std::int64_t i) const {
    const auto in = w.load(x, i), d = w.load(da, i);
    return out.put(w, i, w.each([&](int j) {
      const float v = in[j];
      const float s = fast_sigmoid(kTwoRootTwoOverPi * multiply_add(kCubic * v * v, v, v));
      const float slope = kTwoRootTwoOverPi * multiply_add(3.0f * kCubic * v, v, 1.0f);
      return d[j] * multiply_add(v * slope * s, 1.0f - s, s);
    }));
  }
};

template <class T, class E>
void forward(const Exec& exec, const Emitter<E>& a, const T* x, std::int64_t count) {
  constexpr int kN = kPack<T>;
  emit_each<kN>(exec, "shard8::kernels::gelu_forward", a, count, a.template fits<kN>(kN, x), Forward<T, E>{x});
}

template <class T, class E>
void backward(const Exec& exec, const Emitter<E>& dx, const T* da, const T* x, std::int64_t count) {
  constexpr int kN = kPack<T>;
  const bool fits = dx.template fits<kN>(kN, da, x);
  emit_each<kN>(exec, "shard8::kernels::gelu_backward", dx, count, fits, Backward<T, E>{da, x});
}

}  // namespace

void gelu_forward(const Exec& exec, const Outputs& a, const tensor::Tensor& x) {
  constexpr auto kName = "gelu_forward";
  require_outputs(kName, "a", a, x.count());
  dispatch_real(x.dtype, kName, [&]<class T>(std::type_identity<T>) {
    dispatch_outputs<T>(exec, kName, a, [&](const auto& out) { forward(exec, out, x.as<T>(), x.count()); });
  });
}

void gelu_backward(const Exec& exec, const Outputs& dx, const tensor::Tensor& da, const tensor::Tensor& x) {
  constexpr auto kName = "gelu_backward";
  require_outputs(kName, "dx", dx, x.count());
  require_count(kName, "da", da, x.count());
  dispatch_real(x.dtype, kName, [&]<class T>(std::type_identity<T>) {
    dispatch_outputs<T>(exec, kName, dx,
                        [&](const auto& out) { backward(exec, out, da.as<T>(), x.as<T>(), x.count()); });
  });
}

}  // namespace shard8::kernels
