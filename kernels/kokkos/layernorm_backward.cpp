// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/check/arguments.hpp"
#include "kernels/kokkos/column_sums.hpp"
#include "kernels/kokkos/norm_backward.hpp"
#include "kernels/norm.hpp"

namespace shard8::kernels {
namespace {

/// With n = (x − mean)·rstd and g = w·dy: dx = rstd·(g − mean(g) − n·mean(g·n)).
template <class T>
void backward(const Exec& exec, T* dx, float* partial, const T* dy, const T* x, const float* mean, const float* rstd,
              const T* weight, const T* residual, const RowChunks& chunks, std::int64_t hidden) {
  constexpr auto kLabel = "shard8::kernels::layernorm_backward";
  const auto number = chunks.count();
  const NormBackward<T> at{dx, partial, partial + number * hidden, dy, x, mean, rstd, weight, residual, hidden};
  if (norm_backward_rows<true>(exec, kLabel, at, chunks)) return;
  for_rows(
      exec, kLabel, number, SHARD8_LAMBDA(const Team& team, std::int64_t chunk) {
        float* dw = partial + chunk * hidden;
        float* db = partial + (number + chunk) * hidden;
        row_for(team, hidden, [=](std::int64_t i) {
          dw[i] = 0;
          db[i] = 0;
        });
        for (auto row = chunks.first(chunk); row < chunks.last(chunk); ++row) {
          const T *dyr = dy + row * hidden, *xr = x + row * hidden;
          T* dxr = dx + row * hidden;
          const T* rr = residual == nullptr ? nullptr : residual + row * hidden;
          const float m = mean[row], r = rstd[row];
          const auto count = static_cast<float>(hidden);
          const float g_mean = row_sum<1>(team, hidden, false,
                                          [=](auto, std::int64_t i) {
                                            return static_cast<float>(weight[i]) * static_cast<float>(dyr[i]);
                                          }) /
                               count;
          const float gn_mean = row_sum<1>(team, hidden, false,
                                           [=](auto, std::int64_t i) {
                                             return static_cast<float>(weight[i]) * static_cast<float>(dyr[i]) *
                                                    (static_cast<float>(xr[i]) - m);
                                           }) *
                                r / count;
          const auto column = [=](std::int64_t i) {
            const float n = (static_cast<float>(xr[i]) - m) * r, d = static_cast<float>(dyr[i]);
            dw[i] += d * n;
            db[i] += d;
            return r * (static_cast<float>(weight[i]) * d - g_mean - n * gn_mean);
          };
          if (rr == nullptr) {
            row_for(team, hidden, [=](std::int64_t i) { dxr[i] = static_cast<T>(column(i)); });
          } else {
            row_for(team, hidden,
                    [=](std::int64_t i) { dxr[i] = static_cast<T>(static_cast<float>(rr[i]) + column(i)); });
          }
        }
      });
}

}  // namespace

void layernorm_backward(const Exec& exec, const tensor::Tensor& dx, const tensor::Tensor& dweight,
                        const tensor::Tensor& dbias, const tensor::Tensor& dy, const tensor::Tensor& x,
                        const tensor::Tensor& mean, const tensor::Tensor& rstd, const tensor::Tensor& weight,
                        const tensor::Tensor& residual, const tensor::Tensor& workspace) {
  constexpr auto kName = "layernorm_backward";
  const auto rows = x.rows(), hidden = x.cols();
  require_count(kName, "dx", dx, rows * hidden);
  require_count(kName, "dy", dy, rows * hidden);
  require_count(kName, "mean", mean, rows);
  require_count(kName, "rstd", rstd, rows);
  require_count(kName, "weight", weight, hidden);
  require_count(kName, "dweight", dweight, hidden);
  require_count(kName, "dbias", dbias, hidden);
  if (!residual.empty()) require_count(kName, "residual", residual, rows * hidden);
  require_workspace(kName, workspace, norm_workspace_bytes(rows, hidden));
  const auto chunks = RowChunks::of(rows);
  auto* partial = reinterpret_cast<float*>(workspace.as<std::uint8_t>());
  dispatch_real(x.dtype, kName, [&]<class T>(std::type_identity<T>) {
    backward(exec, dx.as<T>(), partial, dy.as<T>(), x.as<T>(), mean.as<float>(), rstd.as<float>(), weight.as<T>(),
             residual.empty() ? nullptr : residual.as<T>(), chunks, hidden);
  });
  add_partial_sums(exec, "shard8::kernels::layernorm_backward_weight", dweight.as<float>(), partial, chunks.count(),
                   hidden, dbias.as<float>());
}

}  // namespace shard8::kernels
