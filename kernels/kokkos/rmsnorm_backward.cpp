// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/check/arguments.hpp"
#include "kernels/kokkos/column_sums.hpp"
#include "kernels/kokkos/norm_backward.hpp"
#include "kernels/norm.hpp"

namespace shard8::kernels {
namespace {

/// With n = x·rstd: dx = rstd·(w·dy − n·mean(w·dy·n)), and n·dy is the weight gradient's summand.
template <class T>
void backward(const Exec& exec, T* dx, float* partial, const T* dy, const T* x, const float* rstd, const T* weight,
              const T* residual, const RowChunks& chunks, std::int64_t hidden) {
  constexpr auto kLabel = "shard8::kernels::rmsnorm_backward";
  const NormBackward<T> at{dx, partial, nullptr, dy, x, nullptr, rstd, weight, residual, hidden};
  if (norm_backward_rows<false>(exec, kLabel, at, chunks)) return;
  constexpr int kN = 1;
  for_rows(
      exec, kLabel, chunks.count(), SHARD8_LAMBDA(const Team& team, std::int64_t chunk) {
        float* dw = partial + chunk * hidden;
        row_for(team, hidden, [=](std::int64_t i) { dw[i] = 0; });
        for (auto row = chunks.first(chunk); row < chunks.last(chunk); ++row) {
          const T *dyr = dy + row * hidden, *xr = x + row * hidden;
          T* dxr = dx + row * hidden;
          const float r = rstd[row];
          const float sum = row_sum<kN>(team, hidden, false, [=](auto, std::int64_t i) {
            return static_cast<float>(weight[i]) * static_cast<float>(dyr[i]) * static_cast<float>(xr[i]);
          });
          const float mean = sum * r / static_cast<float>(hidden);
          if (residual == nullptr) {
            row_for(team, hidden, [=](std::int64_t i) {
              const float n = static_cast<float>(xr[i]) * r, g = static_cast<float>(dyr[i]);
              dw[i] += g * n;
              dxr[i] = static_cast<T>(r * (static_cast<float>(weight[i]) * g - n * mean));
            });
          } else {
            const T* rr = residual + row * hidden;
            row_for(team, hidden, [=](std::int64_t i) {
              const float n = static_cast<float>(xr[i]) * r, g = static_cast<float>(dyr[i]);
              dw[i] += g * n;
              dxr[i] = static_cast<T>(static_cast<float>(rr[i]) + r * (static_cast<float>(weight[i]) * g - n * mean));
            });
          }
        }
      });
}

}  // namespace

std::size_t norm_workspace_bytes(std::int64_t rows, std::int64_t hidden) {
  return static_cast<std::size_t>(2 * RowChunks::of(rows).count() * hidden) * sizeof(float);
}

void rmsnorm_backward(const Exec& exec, const tensor::Tensor& dx, const tensor::Tensor& dweight,
                      const tensor::Tensor& dy, const tensor::Tensor& x, const tensor::Tensor& rstd,
                      const tensor::Tensor& weight, const tensor::Tensor& residual, const tensor::Tensor& workspace) {
  constexpr auto kName = "rmsnorm_backward";
  const auto rows = x.rows(), hidden = x.cols();
  require_count(kName, "dx", dx, rows * hidden);
  require_count(kName, "dy", dy, rows * hidden);
  require_count(kName, "rstd", rstd, rows);
  require_count(kName, "weight", weight, hidden);
  require_count(kName, "dweight", dweight, hidden);
  if (!residual.empty()) require_count(kName, "residual", residual, rows * hidden);
  require_workspace(kName, workspace, norm_workspace_bytes(rows, hidden));
  const auto chunks = RowChunks::of(rows);
  auto* partial = reinterpret_cast<float*>(workspace.as<std::uint8_t>());
  dispatch_real(x.dtype, kName, [&]<class T>(std::type_identity<T>) {
    backward(exec, dx.as<T>(), partial, dy.as<T>(), x.as<T>(), rstd.as<float>(), weight.as<T>(),
             residual.empty() ? nullptr : residual.as<T>(), chunks, hidden);
  });
  add_partial_sums(exec, "shard8::kernels::rmsnorm_backward_weight", dweight.as<float>(), partial, chunks.count(),
                   hidden);
}

}  // namespace shard8::kernels
