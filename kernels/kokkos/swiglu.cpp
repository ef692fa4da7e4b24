// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/activation.hpp"
#include "kernels/kokkos/dispatch.hpp"
#include "kernels/kokkos/fast_math.hpp"
#include "kernels/kokkos/loops.hpp"

namespace shard8::kernels {
namespace {

template <class T>
void forward(const Exec& exec, T* a, const T* gate_up, std::int64_t rows, std::int64_t ffn) {
  for_rows(
      exec, "shard8::kernels::swiglu_forward", rows, KOKKOS_LAMBDA(const Team& team, std::int64_t row) {
        const T *gate = gate_up + row * 2 * ffn, *up = gate + ffn;
        T* out = a + row * ffn;
        row_for(team, ffn, [=](std::int64_t i) {
          const float g = static_cast<float>(gate[i]);
          out[i] = static_cast<T>(g * fast_sigmoid(g) * static_cast<float>(up[i]));
        });
      });
}

/// silu'(g) = s·(1 + g·(1 − s)), s = sigmoid(g).
template <class T>
void backward(const Exec& exec, T* dgate_up, const T* da, const T* gate_up, std::int64_t rows, std::int64_t ffn) {
  for_rows(
      exec, "shard8::kernels::swiglu_backward", rows, KOKKOS_LAMBDA(const Team& team, std::int64_t row) {
        const T *gate = gate_up + row * 2 * ffn, *up = gate + ffn, *dar = da + row * ffn;
        T *dgate = dgate_up + row * 2 * ffn, *dup = dgate + ffn;
        row_for(team, ffn, [=](std::int64_t i) {
          const float g = static_cast<float>(gate[i]), u = static_cast<float>(up[i]), d = static_cast<float>(dar[i]);
          const float s = fast_sigmoid(g);
          dgate[i] = static_cast<T>(d * u * (s * (1.0f + g * (1.0f - s))));
          dup[i] = static_cast<T>(d * (g * s));
        });
      });
}

}  // namespace

void swiglu_forward(const Exec& exec, const tensor::Tensor& a, const tensor::Tensor& gate_up) {
  const auto rows = a.rows(), ffn = a.cols();
  require_count("swiglu_forward", "gate_up", gate_up, 2 * rows * ffn);
  dispatch_real(a.dtype, "swiglu_forward",
                [&]<class T>(std::type_identity<T>) { forward(exec, a.as<T>(), gate_up.as<T>(), rows, ffn); });
}

void swiglu_backward(const Exec& exec, const tensor::Tensor& dgate_up, const tensor::Tensor& da,
                     const tensor::Tensor& gate_up) {
  const auto rows = da.rows(), ffn = da.cols();
  require_count("swiglu_backward", "gate_up", gate_up, 2 * rows * ffn);
  require_count("swiglu_backward", "dgate_up", dgate_up, 2 * rows * ffn);
  dispatch_real(da.dtype, "swiglu_backward", [&]<class T>(std::type_identity<T>) {
    backward(exec, dgate_up.as<T>(), da.as<T>(), gate_up.as<T>(), rows, ffn);
  });
}

}  // namespace shard8::kernels
