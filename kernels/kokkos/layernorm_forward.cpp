// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/kokkos/dispatch.hpp"
#include "kernels/kokkos/emit.hpp"
#include "kernels/kokkos/fast_math.hpp"
#include "kernels/kokkos/loops.hpp"
#include "kernels/kokkos/norm_forward.hpp"
#include "kernels/norm.hpp"

namespace shard8::kernels {
namespace {

/// Whether the transposed cast was left, too.
template <class T, class E>
bool forward(const Exec& exec, const Emitter<E>& y, float* mean, float* rstd, const T* x, const T* weight,
             const T* bias, std::int64_t rows, std::int64_t hidden, float eps) {
  constexpr int kN = kPack<T>;
  const bool fits = y.template fits<kN>(hidden, x, weight, bias);
  constexpr auto kLabel = "shard8::kernels::layernorm_forward";
  const NormForward<T> at{mean, rstd, x, weight, bias, hidden, eps};
  const NormMade made = norm_forward_on_device<true>(exec, kLabel, y, at, rows, fits);
  if (made != NormMade::no) return made == NormMade::turned_too;
  for_rows(
      exec, kLabel, rows, SHARD8_LAMBDA(const Team& team, std::int64_t row) {
        const T* xr = x + row * hidden;
        const auto count = static_cast<float>(hidden);
        const float total = row_sum<kN>(team, hidden, fits, [=](auto w, std::int64_t i) {
          const auto v = w.load(xr, i);
          return w.sum([&](int j) { return v[j]; });
        });
        const float m = total / count;
        const float squares = row_sum<kN>(team, hidden, fits, [=](auto w, std::int64_t i) {
          const auto v = w.load(xr, i);
          return w.sum([&](int j) { return (v[j] - m) * (v[j] - m); });
        });
        const float r = 1.0f / Kokkos::sqrt(squares / count + eps);
        once(team, [=] {
          mean[row] = m;
          rstd[row] = r;
        });
        const Sink<E> yr = y.open(team, row).from(row * hidden);
        emit_row<kN>(team, yr, hidden, fits, [=](auto w, std::int64_t i) {
          return yr.put(w, i, layernorm_made(w, w.load(xr, i), w.load(weight, i), w.load(bias, i), m, r));
        });
      });
  return false;
}

}  // namespace

void layernorm_forward(const Exec& exec, const Outputs& y, const tensor::Tensor& mean, const tensor::Tensor& rstd,
                       const tensor::Tensor& x, const tensor::Tensor& weight, const tensor::Tensor& bias, float eps) {
  constexpr auto kName = "layernorm_forward";
  const auto rows = x.rows(), hidden = x.cols();
  require_outputs(kName, "y", y, rows * hidden);
  require_count(kName, "mean", mean, rows);
  require_count(kName, "rstd", rstd, rows);
  require_count(kName, "weight", weight, hidden);
  require_count(kName, "bias", bias, hidden);
  dispatch_real(x.dtype, kName, [&]<class T>(std::type_identity<T>) {
    dispatch_outputs<T>(exec, kName, y, [&](const auto& out) {
      return forward(exec, out, mean.as<float>(), rstd.as<float>(), x.as<T>(), weight.as<T>(), bias.as<T>(), rows,
                     hidden, eps);
    });
  });
}

}  // namespace shard8::kernels
