// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/check/arguments.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/kokkos/loops.hpp"
#include "kernels/kokkos/row_sums.hpp"

namespace shard8::kernels {
namespace {

using tensor::PartialSums;

/// The partial sums of dy as T. A null pointer means that there is no such partial sum.
template <class T>
struct PartialSumsOf {
  const T* of[PartialSums::kMost] = {};
  int count;

  explicit PartialSumsOf(const PartialSums& dy) : count(dy.count()) {
    for (int k = 0; k < count; ++k) of[k] = dy[k].as<T>();
  }
  /// kSingle: there is one partial sum.
  template <bool kSingle>
  KOKKOS_FORCEINLINE_FUNCTION float at(std::int64_t i) const {
    if constexpr (kSingle) {
      return static_cast<float>(of[0][i]);
    } else {
      auto sum = static_cast<float>(of[0][i]);
      for (int k = 1; k < count; ++k) sum += static_cast<float>(of[k][i]);
      return static_cast<float>(static_cast<T>(sum));
    }
  }
};

/// The tensors of the backward of a norm. RMSNorm has neither mean nor dbias.
template <class T>
struct NormBackward {
  T* dx;
  float *dweight, *dbias;  ///< (chunks, hidden), partial sums
  PartialSumsOf<T> dy;
  const T* x;
  const float *mean, *rstd;
  const T *weight, *residual;
  std::int64_t hidden;
};

/// The backward of a norm on a device. A team takes the rows of a chunk. A thread takes kPacks packs of columns, the
/// same in all rows. A thread keeps the weight gradients of its columns and one row at a time in registers, and loads
/// the next rows meanwhile. With n = (x − mean)·rstd and g = w·dy: dx = rstd·(g − mean(g) − n·mean(g·n)); for RMSNorm
/// mean and mean(g) are 0. There are at most kPartialSums partial sums of dy.
template <class T, bool kCentred, bool kResidual, int kPacks, int kPartialSums>
struct NormBackwardRows {
  static constexpr int kN = kPack<T>;
  using Wide = Packed<kN, kPacks>;
  using Lanes = typename Wide::template Lanes<T>;
  /// Rows that are loaded ahead: as many as registers allow.
  static constexpr int kAhead = kResidual || kCentred || kPartialSums > 1 ? 1 : 2;

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
    Lanes dy[kPartialSums], x, residual;
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
      const Lanes dy = sum_of(now);
      float g_sum = 0, gn_sum = 0;
      SHARD8_UNROLL
      for (int j = 0; j < Wide::kCount; ++j) {
        const float g = weight[j] * dy[j];
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
        const float n = (now.x[j] - m) * r, d = dy[j];
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
    Row loaded;
    SHARD8_UNROLL
    for (int k = 0; k < kPartialSums; ++k) {
      if (k == 0 || at.dy.of[k] != nullptr) loaded.dy[k] = load(at.dy.of[k] + first, column, stride);
    }
    loaded.x = load(at.x + first, column, stride);
    if constexpr (kResidual && !kCentred) loaded.residual = load(at.residual + first, column, stride);
    return loaded;
  }
  KOKKOS_FORCEINLINE_FUNCTION Lanes sum_of(const Row& row) const {
    if constexpr (kPartialSums == 1) {
      return row.dy[0];
    } else {
      const Wide w{0};
      auto sum = w.each([&](int j) { return row.dy[0][j]; });
      SHARD8_UNROLL
      for (int k = 1; k < kPartialSums; ++k) {
        if (at.dy.of[k] == nullptr) continue;
        SHARD8_UNROLL
        for (int j = 0; j < Wide::kCount; ++j) sum.at[j] += row.dy[k][j];
      }
      return w.template round_results<T>(sum);
    }
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
    const int threads = NormBackwardRows<T, kCentred, true, kPacks, 1>::threads(at.hidden);
    const bool fit = packs_fit<kN>(at.hidden, at.dx, at.x, at.weight, at.residual) &&
                     packs_fit<kN>(at.hidden, at.dy.of[0], at.dy.of[1], at.dy.of[2], at.dy.of[3], at.dy.of[4]);
    if (threads == 0 || !fit) return false;
    const auto run = [&]<bool kResidual, int kPartialSums>() {
      using Rows = NormBackwardRows<T, kCentred, kResidual, kPacks, kPartialSums>;
      for_rows<typename Rows::Bounds>(exec, label, chunks.count(), Rows{at, chunks}, threads);
    };
    const auto run_of = [&]<int kPartialSums>() {
      if (at.residual != nullptr)
        run.template operator()<true, kPartialSums>();
      else
        run.template operator()<false, kPartialSums>();
    };
    static_assert(PartialSums::kMost == 5);
    if (at.dy.count == 1)
      run_of.template operator()<1>();
    else if (at.dy.count == 2)
      run_of.template operator()<2>();
    else if (at.dy.count <= 4)  // more take more registers
      run_of.template operator()<4>();
    else
      run_of.template operator()<PartialSums::kMost>();
    return true;
  }
}

/// The loops of the backward of LayerNorm where NormBackwardRows does not run, with the same formula. kSingle: dy is
/// one partial sum.
template <bool kSingle, class T>
void layernorm_loops(const Exec& exec, const char* label, const NormBackward<T>& at, const RowChunks& chunks) {
  for_rows(
      exec, label, chunks.count(), SHARD8_LAMBDA(const Team& team, std::int64_t chunk) {
        const std::int64_t hidden = at.hidden;
        const auto dy = at.dy;
        const T* const weight = at.weight;
        float* dw = at.dweight + chunk * hidden;
        float* db = at.dbias + chunk * hidden;
        row_for(team, hidden, [=](std::int64_t i) {
          dw[i] = 0;
          db[i] = 0;
        });
        for (auto row = chunks.first(chunk); row < chunks.last(chunk); ++row) {
          const std::int64_t first = row * hidden;
          const T* xr = at.x + first;
          T* dxr = at.dx + first;
          const T* rr = at.residual == nullptr ? nullptr : at.residual + first;
          const float m = at.mean[row], r = at.rstd[row];
          const auto count = static_cast<float>(hidden);
          const float g_mean = row_sum<1>(team, hidden, false,
                                          [=](auto, std::int64_t i) {
                                            return static_cast<float>(weight[i]) * dy.template at<kSingle>(first + i);
                                          }) /
                               count;
          const float gn_mean = row_sum<1>(team, hidden, false,
                                           [=](auto, std::int64_t i) {
                                             return static_cast<float>(weight[i]) * dy.template at<kSingle>(first + i) *
                                                    (static_cast<float>(xr[i]) - m);
                                           }) *
                                r / count;
          const auto column = [=](std::int64_t i) {
            const float n = (static_cast<float>(xr[i]) - m) * r, d = dy.template at<kSingle>(first + i);
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

/// As layernorm_loops, for RMSNorm. With n = x·rstd: dx = rstd·(w·dy − n·mean(w·dy·n)), and n·dy is added to the weight
/// gradient.
template <bool kSingle, class T>
void rmsnorm_loops(const Exec& exec, const char* label, const NormBackward<T>& at, const RowChunks& chunks) {
  constexpr int kN = 1;
  for_rows(
      exec, label, chunks.count(), SHARD8_LAMBDA(const Team& team, std::int64_t chunk) {
        const std::int64_t hidden = at.hidden;
        const auto dy = at.dy;
        const T* const weight = at.weight;
        float* dw = at.dweight + chunk * hidden;
        row_for(team, hidden, [=](std::int64_t i) { dw[i] = 0; });
        for (auto row = chunks.first(chunk); row < chunks.last(chunk); ++row) {
          const std::int64_t first = row * hidden;
          const T* xr = at.x + first;
          T* dxr = at.dx + first;
          const float r = at.rstd[row];
          const float sum = row_sum<kN>(team, hidden, false, [=](auto, std::int64_t i) {
            return static_cast<float>(weight[i]) * dy.template at<kSingle>(first + i) * static_cast<float>(xr[i]);
          });
          const float mean = sum * r / static_cast<float>(hidden);
          if (at.residual == nullptr) {
            row_for(team, hidden, [=](std::int64_t i) {
              const float n = static_cast<float>(xr[i]) * r, g = dy.template at<kSingle>(first + i);
              dw[i] += g * n;
              dxr[i] = static_cast<T>(r * (static_cast<float>(weight[i]) * g - n * mean));
            });
          } else {
            const T* rr = at.residual + first;
            row_for(team, hidden, [=](std::int64_t i) {
              const float n = static_cast<float>(xr[i]) * r, g = dy.template at<kSingle>(first + i);
              dw[i] += g * n;
              dxr[i] = static_cast<T>(static_cast<float>(rr[i]) + r * (static_cast<float>(weight[i]) * g - n * mean));
            });
          }
        }
      });
}

/// The backward of LayerNorm (kCentred) or RMSNorm, in the way that is fastest where it runs.
template <bool kCentred, class T>
void norm_backward(const Exec& exec, const char* label, const NormBackward<T>& at, const RowChunks& chunks) {
  if (norm_backward_rows<kCentred>(exec, label, at, chunks)) return;
  const auto loops = [&]<bool kSingle>() {
    if constexpr (kCentred)
      layernorm_loops<kSingle>(exec, label, at, chunks);
    else
      rmsnorm_loops<kSingle>(exec, label, at, chunks);
  };
  if (at.dy.count == 1)
    loops.template operator()<true>();
  else
    loops.template operator()<false>();
}

void require_partial_sums(const char* kernel, const PartialSums& dy, std::int64_t count) {
  SHARD8_REQUIRE(dy.count() > 0, "{}: dy has no partial sum", kernel);
  for (int k = 0; k < dy.count(); ++k) require_count(kernel, "dy", dy[k], count);
}

/// The backward of either norm. `mean` and `dbias` are null for RMSNorm, which has neither. `weight_label` is the label
/// of the sums of the weights' gradients.
template <bool kCentred>
void backward(const Exec& exec, const char* kernel, const char* label, const char* weight_label,
              const tensor::Tensor& dx, const tensor::Tensor& dweight, const tensor::Tensor* dbias,
              const PartialSums& dy, const tensor::Tensor& x, const tensor::Tensor* mean, const tensor::Tensor& rstd,
              const tensor::Tensor& weight, const tensor::Tensor& residual, const tensor::Tensor& workspace) {
  const auto rows = x.rows(), hidden = x.cols();
  require_count(kernel, "dx", dx, rows * hidden);
  require_partial_sums(kernel, dy, rows * hidden);
  if (mean != nullptr) require_count(kernel, "mean", *mean, rows);
  require_count(kernel, "rstd", rstd, rows);
  require_count(kernel, "weight", weight, hidden);
  require_count(kernel, "dweight", dweight, hidden);
  if (dbias != nullptr) require_count(kernel, "dbias", *dbias, hidden);
  if (!residual.empty()) require_count(kernel, "residual", residual, rows * hidden);
  require_workspace(kernel, workspace, norm_workspace_bytes(rows, hidden));
  const auto chunks = RowChunks::of(rows);
  auto* partial = reinterpret_cast<float*>(workspace.as<std::uint8_t>());
  dispatch_real(x.dtype, kernel, [&]<class T>(std::type_identity<T>) {
    const NormBackward<T> at{dx.as<T>(),
                             partial,
                             kCentred ? partial + chunks.count() * hidden : nullptr,
                             PartialSumsOf<T>(dy),
                             x.as<T>(),
                             mean == nullptr ? nullptr : mean->as<float>(),
                             rstd.as<float>(),
                             weight.as<T>(),
                             residual.empty() ? nullptr : residual.as<T>(),
                             hidden};
    norm_backward<kCentred>(exec, label, at, chunks);
  });
  add_partial_sums(exec, weight_label, dweight.as<float>(), partial, chunks.count(), hidden,
                   dbias == nullptr ? nullptr : dbias->as<float>());
}

}  // namespace

void layernorm_backward(const Exec& exec, const tensor::Tensor& dx, const tensor::Tensor& dweight,
                        const tensor::Tensor& dbias, const PartialSums& dy, const tensor::Tensor& x,
                        const tensor::Tensor& mean, const tensor::Tensor& rstd, const tensor::Tensor& weight,
                        const tensor::Tensor& residual, const tensor::Tensor& workspace) {
  backward<true>(exec, "layernorm_backward", "shard8::kernels::layernorm_backward",
                 "shard8::kernels::layernorm_backward_weight", dx, dweight, &dbias, dy, x, &mean, rstd, weight,
                 residual, workspace);
}

void rmsnorm_backward(const Exec& exec, const tensor::Tensor& dx, const tensor::Tensor& dweight, const PartialSums& dy,
                      const tensor::Tensor& x, const tensor::Tensor& rstd, const tensor::Tensor& weight,
                      const tensor::Tensor& residual, const tensor::Tensor& workspace) {
  backward<false>(exec, "rmsnorm_backward", "shard8::kernels::rmsnorm_backward",
                  "shard8::kernels::rmsnorm_backward_weight", dx, dweight, nullptr, dy, x, nullptr, rstd, weight,
                  residual, workspace);
}

std::size_t norm_workspace_bytes(std::int64_t rows, std::int64_t hidden) {
  return static_cast<std::size_t>(2 * RowChunks::of(rows).count() * hidden) * sizeof(float);
}

}  // namespace shard8::kernels
