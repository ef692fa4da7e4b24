// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/activation.hpp"
#include "kernels/kokkos/dispatch.hpp"
#include "kernels/kokkos/fast_math.hpp"
#include "kernels/kokkos/loops.hpp"

namespace shard8::kernels {
namespace {

// (1 + tanh(u))/2 = sigmoid(2u), so gelu(x) = x·sigmoid(2u), u = sqrt(2/π)·(x + 0.044715·x³).
constexpr float kTwoRootTwoOverPi = 1.5957691216057308f;
constexpr float kCubic = 0.044715f;

template <class T>
void forward(const Exec& exec, T* a, const T* x, std::int64_t count) {
  for_each(
      exec, "shard8::kernels::gelu_forward", count, KOKKOS_LAMBDA(std::int64_t i) {
        const float v = static_cast<float>(x[i]);
        a[i] = static_cast<T>(v * fast_sigmoid(kTwoRootTwoOverPi * (v + kCubic * v * v * v)));
      });
}

template <class T>
void backward(const Exec& exec, T* dx, const T* da, const T* x, std::int64_t count) {
  for_each(
      exec, "shard8::kernels::gelu_backward", count, KOKKOS_LAMBDA(std::int64_t i) {
        const float v = static_cast<float>(x[i]);
        const float s = fast_sigmoid(kTwoRootTwoOverPi * (v + kCubic * v * v * v));
        const float slope = kTwoRootTwoOverPi * (1.0f + 3.0f * kCubic * v * v);
        dx[i] = static_cast<T>(static_cast<float>(da[i]) * (s + v * slope * s * (1.0f - s)));
      });
}

}  // namespace

void gelu_forward(const Exec& exec, const tensor::Tensor& a, const tensor::Tensor& x) {
  require_count("gelu_forward", "a", a, x.count());
  dispatch_real(x.dtype, "gelu_forward",
                [&]<class T>(std::type_identity<T>) { forward(exec, a.as<T>(), x.as<T>(), x.count()); });
}

void gelu_backward(const Exec& exec, const tensor::Tensor& dx, const tensor::Tensor& da, const tensor::Tensor& x) {
  require_count("gelu_backward", "dx", dx, x.count());
  require_count("gelu_backward", "da", da, x.count());
  dispatch_real(x.dtype, "gelu_backward",
                [&]<class T>(std::type_identity<T>) { backward(exec, dx.as<T>(), da.as<T>(), x.as<T>(), x.count()); });
}

}  // namespace shard8::kernels
