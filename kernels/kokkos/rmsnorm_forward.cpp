// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/kokkos/dispatch.hpp"
#include "kernels/kokkos/emit.hpp"
#include "kernels/kokkos/loops.hpp"
#include "kernels/kokkos/norm_forward.hpp"
#include "kernels/norm.hpp"

namespace shard8::kernels {
namespace {

/// Whether the transposed cast was left, too.
template <class T, class E>
bool forward(const Exec& exec, const Emitter<E>& y, float* rstd, const T* x, const T* weight, std::int64_t rows,
             std::int64_t hidden, float eps) {
  constexpr int kN = kPack<T>;
  const bool fits = y.template fits<kN>(hidden, x, weight);
  constexpr auto kLabel = "shard8::kernels::rmsnorm_forward";
  const NormForward<T> at{nullptr, rstd, x, weight, nullptr, hidden, eps};
  const NormMade made = norm_forward_on_device<false>(exec, kLabel, y, at, rows, fits);
  if (made != NormMade::no) return made == NormMade::turned_too;
  for_rows(
      exec, kLabel, rows, SHARD8_LAMBDA(const Team& team, std::int64_t row) {
        const T* xr = x + row * hidden;
        const float sum = row_sum<kN>(team, hidden, fits, [=](auto w, std::int64_t i) {
          const auto v = w.load(xr, i);
          return w.sum([&](int j) { return v[j] * v[j]; });
        });
        const float r = 1.0f / Kokkos::sqrt(sum / static_cast<float>(hidden) + eps);
        once(team, [=] { rstd[row] = r; });
        const Sink<E> yr = y.open(team, row).from(row * hidden);
        emit_row<kN>(team, yr, hidden, fits, [=](auto w, std::int64_t i) {
          return yr.put(w, i, rmsnorm_made<T>(w, w.load(xr, i), w.load(weight, i), r));
        });
      });
  return false;
}

}  // namespace

void rmsnorm_forward(const Exec& exec, const Outputs& y, const tensor::Tensor& rstd, const tensor::Tensor& x,
                     const tensor::Tensor& weight, float eps) {
  constexpr auto kName = "rmsnorm_forward";
  const auto rows = x.rows(), hidden = x.cols();
  require_outputs(kName, "y", y, rows * hidden);
  require_count(kName, "rstd", rstd, rows);
  require_count(kName, "weight", weight, hidden);
  dispatch_real(x.dtype, kName, [&]<class T>(std::type_identity<T>) {
    dispatch_outputs<T>(exec, kName, y, [&](const auto& out) {
      return forward(exec, out, rstd.as<float>(), x.as<T>(), weight.as<T>(), rows, hidden, eps);
    });
  });
}

}  // namespace shard8::kernels
