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
void forward(const Exec& exec, const Emitter<E>& a, const T* x, std::int64_t count) {
  emit_each(
      exec, "shard8::kernels::gelu_forward", a, count, KOKKOS_LAMBDA(const Sink<E>& out, std::int64_t i) {
        const float v = static_cast<float>(x[i]);
        return out.put(i, v * fast_sigmoid(kTwoRootTwoOverPi * multiply_add(kCubic * v * v, v, v)));
      });
}

template <class T, class E>
void backward(const Exec& exec, const Emitter<E>& dx, const T* da, const T* x, std::int64_t count) {
  emit_each(
      exec, "shard8::kernels::gelu_backward", dx, count, KOKKOS_LAMBDA(const Sink<E>& out, std::int64_t i) {
        const float v = static_cast<float>(x[i]);
        const float s = fast_sigmoid(kTwoRootTwoOverPi * multiply_add(kCubic * v * v, v, v));
        const float slope = kTwoRootTwoOverPi * multiply_add(3.0f * kCubic * v, v, 1.0f);
        return out.put(i, static_cast<float>(da[i]) * multiply_add(v * slope * s, 1.0f - s, s));
      });
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
