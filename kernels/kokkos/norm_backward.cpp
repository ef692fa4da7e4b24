// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/check/arguments.hpp"
#include "kernels/kokkos/column_sums.hpp"
#include "kernels/kokkos/loops.hpp"
#include "kernels/norm.hpp"

namespace shard8::kernels {
namespace {

/// The tensors of the backward of a norm. RMSNorm has neither mean nor dbias.
template <class T>
struct NormBackward {
  T* dx;
  float *dweight, *dbias;  ///< (chunks, hidden), partial sums
  const T *dy, *x;
  const float *mean, *rstd;
  const T *weight, *residual;
  std::int64_t hidden;
};

/// The backward of a norm on a device. A team takes the rows of a chunk. A thread takes kPacks packs of columns, the
/// same in all rows. It keeps the weight gradients of its columns and one row at a time in registers, and loads the
/// next rows meanwhile. With n = (x − mean)·rstd and g = w·dy: dx = rstd·(g − mean(g) − n·mean(g·n)); for RMSNorm mean
/// and mean(g) are 0.
template <class T, bool kCentred, bool kResidual, int kPacks>
struct NormBackwardRows {
  static constexpr int kN = kPack<T>;
  using Wide = Packed<kN, kPacks>;
  using Lanes = typename Wide::template Lanes<T>;
  /// Rows that are loaded ahead: as many as registers allow.
  static constexpr int kAhead = kResidual || kCentred ? 1 : 2;

  NormBackward<T> at;
  RowChunks chunks;

  /// The largest team; its registers also allow two teams of half that size at once.
  static constexpr int kMost = kPacks == 1 ? 1024 : sizeof(T) == 2 ? 512 : 256;
  using Bounds = Kokkos::LaunchBounds<kMost, 1>;
  /// Threads of a team for `hidden` columns; 0 if that is more than kMost.
  static int threads(std::int64_t hidden) {
    const std::int64_t needed = (hidden + kN * kPacks - 1) / (kN * kPacks), whole = (needed + 31) / 32 * 32;
    return whole <= kMost ? static_cast<int>(whole) : 0;
  }

  struct Row {
    Lanes dy, x, residual;
  };

  template <class AnyMember>
  KOKKOS_INLINE_FUNCTION void operator()(const AnyMember& team, std::int64_t chunk) const {
    const std::int64_t column = static_cast<std::int64_t>(team.team_rank()) * kN,
                       stride = static_cast<std::int64_t>(team.team_size()) * kN;
    const Lanes weight = load(at.weight, column, stride);
    float dw[Wide::kCount] = {}, db[Wide::kCount] = {};
    const std::int64_t last = chunks.last(chunk);
    Row next[kAhead];
    SHARD8_UNROLL
    for (int a = 0; a < kAhead; ++a) {
      if (chunks.first(chunk) + a < last) next[a] = load_row(chunks.first(chunk) + a, column, stride);
    }
    for (std::int64_t row = chunks.first(chunk); row < last; ++row) {
      const Row now = next[0];
      SHARD8_UNROLL
      for (int a = 1; a < kAhead; ++a) next[a - 1] = next[a];
      if (row + kAhead < last) next[kAhead - 1] = load_row(row + kAhead, column, stride);
      Lanes residual = now.residual;
      if constexpr (kResidual && kCentred) residual = load(at.residual + row * at.hidden, column, stride);
      const float m = kCentred ? at.mean[row] : 0.0f, r = at.rstd[row];
      float g_sum = 0, gn_sum = 0;
      SHARD8_UNROLL
      for (int j = 0; j < Wide::kCount; ++j) {
        const float g = weight[j] * now.dy[j];
        if constexpr (kCentred) g_sum += g;
        gn_sum += g * (now.x[j] - m);
      }
      const int slot = static_cast<int>(row % 2);
      const auto count = static_cast<float>(at.hidden);
      float g_mean = 0, gn_mean = 0;
      if constexpr (kCentred) {
        const TwoSums sums = team_sums(team, g_sum, gn_sum, slot);
        g_mean = sums.first / count;
        gn_mean = sums.second * r / count;
      } else {
        gn_mean = team_total(team, gn_sum, Add{}, slot) * r / count;
      }
      Values<Wide::kCount> dx;
      SHARD8_UNROLL
      for (int j = 0; j < Wide::kCount; ++j) {
        const float n = (now.x[j] - m) * r, d = now.dy[j];
        dw[j] += d * n;
        if constexpr (kCentred) db[j] += d;
        const float column_dx = r * (weight[j] * d - g_mean - n * gn_mean);
        dx.at[j] = kResidual ? residual[j] + column_dx : column_dx;
      }
      store(at.dx + row * at.hidden, column, stride, dx.at);
    }
    store(at.dweight + chunk * at.hidden, column, stride, dw);
    if constexpr (kCentred) store(at.dbias + chunk * at.hidden, column, stride, db);
  }

 private:
  KOKKOS_FORCEINLINE_FUNCTION Lanes load(const T* from, std::int64_t column, std::int64_t stride) const {
    Lanes lanes{};
    SHARD8_UNROLL
    for (int u = 0; u < kPacks; ++u) {
      const std::int64_t c = column + u * stride;
      if (c < at.hidden) lanes.pack[u] = load_words<kN* static_cast<int>(sizeof(T))>(from + c);
    }
    return lanes;
  }
  KOKKOS_FORCEINLINE_FUNCTION Row load_row(std::int64_t row, std::int64_t column, std::int64_t stride) const {
    const std::int64_t first = row * at.hidden;
    Row loaded{load(at.dy + first, column, stride), load(at.x + first, column, stride), {}};
    if constexpr (kResidual && !kCentred) loaded.residual = load(at.residual + first, column, stride);
    return loaded;
  }
  template <class Out>
  KOKKOS_FORCEINLINE_FUNCTION void store(Out* to, std::int64_t column, std::int64_t stride,
                                         const float (&values)[Wide::kCount]) const {
    SHARD8_UNROLL
    for (int u = 0; u < kPacks; ++u) {
      const std::int64_t c = column + u * stride;
      if (c >= at.hidden) continue;
      float part[kN];
      SHARD8_UNROLL
      for (int k = 0; k < kN; ++k) part[k] = values[u * kN + k];
      store_words(to + c, round_results<Out, kN>(part));
    }
  }
};

/// Runs NormBackwardRows on a device where packs fit, and returns whether it ran; on hosts false.
template <bool kCentred, class T>
bool norm_backward_rows(const Exec& exec, const char* label, const NormBackward<T>& at, const RowChunks& chunks) {
  if constexpr (kHostExec) {
    return false;
  } else {
    constexpr int kN = kPack<T>, kPacks = kCentred ? 16 / kN : 1;  // chosen by measurement
    using With = NormBackwardRows<T, kCentred, true, kPacks>;
    using Without = NormBackwardRows<T, kCentred, false, kPacks>;
    const int threads = With::threads(at.hidden);
    if (threads == 0 || !packs_fit<kN>(at.hidden, at.dx, at.dy, at.x, at.weight, at.residual)) return false;
    if (at.residual != nullptr) {
      for_rows<typename With::Bounds>(exec, label, chunks.count(), With{at, chunks}, threads);
    } else {
      for_rows<typename Without::Bounds>(exec, label, chunks.count(), Without{at, chunks}, threads);
    }
    return true;
  }
}

/// With n = (x − mean)·rstd and g = w·dy: dx = rstd·(g − mean(g) − n·mean(g·n)).
template <class T>
void layernorm(const Exec& exec, T* dx, float* partial, const T* dy, const T* x, const float* mean, const float* rstd,
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

/// With n = x·rstd: dx = rstd·(w·dy − n·mean(w·dy·n)), and n·dy is the weight gradient's summand.
template <class T>
void rmsnorm(const Exec& exec, T* dx, float* partial, const T* dy, const T* x, const float* rstd, const T* weight,
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
    layernorm(exec, dx.as<T>(), partial, dy.as<T>(), x.as<T>(), mean.as<float>(), rstd.as<float>(), weight.as<T>(),
              residual.empty() ? nullptr : residual.as<T>(), chunks, hidden);
  });
  add_partial_sums(exec, "shard8::kernels::layernorm_backward_weight", dweight.as<float>(), partial, chunks.count(),
                   hidden, dbias.as<float>());
}

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
    rmsnorm(exec, dx.as<T>(), partial, dy.as<T>(), x.as<T>(), rstd.as<float>(), weight.as<T>(),
            residual.empty() ? nullptr : residual.as<T>(), chunks, hidden);
  });
  add_partial_sums(exec, "shard8::kernels::rmsnorm_backward_weight", dweight.as<float>(), partial, chunks.count(),
                   hidden);
}

}  // namespace shard8::kernels
