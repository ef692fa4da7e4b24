// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/kokkos/dispatch.hpp"
#include "kernels/kokkos/loops.hpp"
#include "kernels/norm.hpp"

namespace shard8::kernels {
namespace {

template <class T>
void forward(const Exec& exec, T* y, float* rstd, const T* x, const T* weight, std::int64_t rows, std::int64_t hidden,
             float eps) {
  for_rows(
      exec, "shard8::kernels::rmsnorm_forward", rows, KOKKOS_LAMBDA(const Team& team, std::int64_t row) {
        const T* xr = x + row * hidden;
        T* yr = y + row * hidden;
        const float sum = row_sum(team, hidden, [=](std::int64_t i) {
          const float v = static_cast<float>(xr[i]);
          return v * v;
        });
        const float r = 1.0f / Kokkos::sqrt(sum / static_cast<float>(hidden) + eps);
        once(team, [=] { rstd[row] = r; });
        row_for(team, hidden, [=](std::int64_t i) {
          const T normed = static_cast<T>(static_cast<float>(xr[i]) * r);
          yr[i] = static_cast<T>(static_cast<float>(weight[i]) * static_cast<float>(normed));
        });
      });
}

}  // namespace

void rmsnorm_forward(const Exec& exec, const tensor::Tensor& y, const tensor::Tensor& rstd, const tensor::Tensor& x,
                     const tensor::Tensor& weight, float eps) {
  const auto rows = x.rows(), hidden = x.cols();
  require_count("rmsnorm_forward", "y", y, rows * hidden);
  require_count("rmsnorm_forward", "rstd", rstd, rows);
  require_count("rmsnorm_forward", "weight", weight, hidden);
  dispatch_real(x.dtype, "rmsnorm_forward", [&]<class T>(std::type_identity<T>) {
    forward(exec, y.as<T>(), rstd.as<float>(), x.as<T>(), weight.as<T>(), rows, hidden, eps);
  });
}

}  // namespace shard8::kernels
