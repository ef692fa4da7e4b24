// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <type_traits>

#include "kernels/check/arguments.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/kokkos/cast_tiles.hpp"
#include "kernels/kokkos/fast_math.hpp"
#include "kernels/kokkos/loops.hpp"
#include "kernels/kokkos/norm_values.hpp"
#include "kernels/kokkos/portable.hpp"
#include "kernels/kokkos/write_outputs.hpp"
#include "kernels/kokkos/write_panels.hpp"

namespace shard8::kernels {
namespace {

/// The tensors of the forward of a norm. RMSNorm has neither mean nor bias.
template <class T>
struct NormForward {
  float *mean, *rstd;
  T* x;
  const T *weight, *bias;
  std::int64_t hidden;
  float eps;
  Kokkos::Array<const T*, tensor::PartialSums::kMost> partial_sums;
  int count = 0;  ///< of partial sums; 0 if x is written

  /// Returns the elements of x at i. If x is partial sums, their sums are computed and written to x before, so the
  /// first to read an element of x must call this. On hosts there are never partial sums.
  template <class W>
  KOKKOS_FORCEINLINE_FUNCTION auto make(const W& w, std::int64_t i) const {
    if constexpr (!kHostExec) {
      if (count > 0) store_sum(w, i);
    }
    return w.load(static_cast<const T*>(x), i);
  }

 private:
  template <class W>
  KOKKOS_FORCEINLINE_FUNCTION void store_sum(const W& w, std::int64_t i) const {
    typename W::template Lanes<T> in[tensor::PartialSums::kMost];
    SHARD8_UNROLL
    for (int k = 0; k < tensor::PartialSums::kMost; ++k) {
      if (k < count) in[k] = w.load(partial_sums[k], i);
    }
    w.store(x, i, w.each([&](int j) {
      float sum = in[0][j];
      SHARD8_UNROLL
      for (int k = 1; k < tensor::PartialSums::kMost; ++k) {
        if (k < count) sum += in[k][j];
      }
      return sum;
    }));
  }
};

/// The rounded results of the elements at i of a row, where x is `v`.
template <bool kCentred, class T, class W>
KOKKOS_FORCEINLINE_FUNCTION auto norm_lanes(const NormForward<T>& at, const W& w, std::int64_t i,
                                            const typename W::template Lanes<T>& v, float m, float r) {
  typename W::template Lanes<T> bias{};
  if constexpr (kCentred) bias = w.load(at.bias, i);
  return norm_values<kCentred, T>(w, v, w.load(at.weight, i), bias, m, r);
}

/// The forward of a norm on a device. A team takes kRows rows, one after the other. Each thread holds 16 elements of a
/// row in registers, so a row is read once; the next row is loaded meanwhile.
template <class T, class E, bool kCentred>
struct NormForwardRows {
  static constexpr int kN = kPack<T>, kPacks = 16 / kN;
  static constexpr std::int64_t kRows = E::kStats || kCentred ? 8 : 1;  ///< chosen by measurement
  using Width = Packed<kN, kPacks>;
  using Lanes = typename Width::template Lanes<T>;

  OutputWriter<E> y;
  NormForward<T> at;
  std::int64_t rows;

  /// The largest team, and how many teams of that size must fit in the registers of a multiprocessor.
  static constexpr int kMost = 512;
  using Bounds = Kokkos::LaunchBounds<kMost, sizeof(T) == 2 ? 2 : 1>;
  /// Threads of a team for `hidden` columns; 0 where whole warps cannot hold the row with exactly 16 elements a thread.
  static int threads(std::int64_t hidden) {
    const std::int64_t needed = hidden / (kN * kPacks);
    return hidden % (kN * kPacks * 32) == 0 && needed <= kMost ? static_cast<int>(needed) : 0;
  }

  template <class AnyMember>
  KOKKOS_INLINE_FUNCTION void operator()(const AnyMember& team, std::int64_t index) const {
    const Width w{static_cast<std::int64_t>(team.team_size()) * kN};
    const std::int64_t i = static_cast<std::int64_t>(team.team_rank()) * kN, first = index * kRows;
    Lanes next = at.make(w, first * at.hidden + i);
    const RowWriter<E> out = y.open(team, index);
    CastStats stats;
    if constexpr (kRows == 1) {
      stats = row_of(team, out, next, first, w, i);
    } else {
      const std::int64_t last = first + kRows < rows ? first + kRows : rows;
      for (std::int64_t row = first; row < last; ++row) {
        const Lanes now = next;
        if (row + 1 < last) next = at.make(w, (row + 1) * at.hidden + i);
        stats += row_of(team, out, now, row, w, i);
      }
    }
    if constexpr (E::kStats) out.totals.add(team, stats);
  }

 private:
  template <class AnyMember>
  KOKKOS_FORCEINLINE_FUNCTION CastStats row_of(const AnyMember& team, const RowWriter<E>& out, const Lanes& v,
                                               std::int64_t row, const Width& w, std::int64_t i) const {
    const auto count = static_cast<float>(at.hidden);
    float m = 0;
    if constexpr (kCentred) m = team_total(team, w.sum([&](int j) { return v[j]; }), Add{}, 0) / count;
    const int slot = kCentred || kRows == 1 ? 1 : static_cast<int>(row % 2);
    const float squares = team_total(team, w.sum([&](int j) { return (v[j] - m) * (v[j] - m); }), Add{}, slot);
    const float r = 1.0f / Kokkos::sqrt(squares / count + at.eps);
    if (team.team_rank() == 0) {
      if constexpr (kCentred) at.mean[row] = m;
      at.rstd[row] = r;
    }
    const RowWriter<E> yr = out.from(row * at.hidden);
    if constexpr (!E::kCast) return yr.put(w, i, norm_lanes<kCentred>(at, w, i, v, m, r));
    CastStats stats;  // one pack at a time, because registers allow no more
    const Packed<kN, 1> one{0};
    SHARD8_UNROLL
    for (int u = 0; u < kPacks; ++u) {
      const std::int64_t first = i + u * w.stride;
      stats += yr.put(one, first, norm_lanes<kCentred>(at, one, first, {{v.pack[u]}}, m, r));
    }
    return stats;
  }
};

/// Runs NormForwardRows on a device, if packs fit and the threads of a team hold a whole row. Returns whether it ran;
/// on hosts false.
template <bool kCentred, class T, class E>
bool forward_by_rows(const Exec& exec, const char* label, const OutputWriter<E>& y, const NormForward<T>& at,
                     std::int64_t rows, bool fits) {
  if constexpr (kHostExec) {
    return false;
  } else {
    using Rows = NormForwardRows<T, E, kCentred>;
    const int threads = Rows::threads(at.hidden);
    if (threads == 0 || !fits) return false;
    for_rows<typename Rows::Bounds>(exec, label, (rows + Rows::kRows - 1) / Rows::kRows, Rows{y, at, rows}, threads);
    return true;
  }
}

template <class T, class E>
void rmsnorm(const Exec& exec, const OutputWriter<E>& y, const NormForward<T>& at, std::int64_t rows) {
  constexpr int kN = kPack<T>;
  const auto hidden = at.hidden;
  bool fits = y.template fits<kN>(hidden, at.x, at.weight);
  for (int k = 0; k < at.count; ++k) fits = fits && packs_fit<kN>(hidden, at.partial_sums[k]);
  constexpr auto kLabel = "shard8::kernels::rmsnorm_forward";
  if (forward_by_rows<false>(exec, kLabel, y, at, rows, fits)) return;
  for_rows(
      exec, kLabel, rows, SHARD8_LAMBDA(const Team& team, std::int64_t row) {
        const T* xr = at.x + row * hidden;
        const float sum = row_sum<kN>(team, hidden, fits, [=](auto w, std::int64_t i) {
          const auto v = at.make(w, row * hidden + i);
          return w.sum([&](int j) { return v[j] * v[j]; });
        });
        const float r = 1.0f / Kokkos::sqrt(sum / static_cast<float>(hidden) + at.eps);
        once(team, [=] { at.rstd[row] = r; });
        const RowWriter<E> yr = y.open(team, row).from(row * hidden);
        write_row<kN>(team, yr, hidden, fits, [=](auto w, std::int64_t i) {
          return yr.put(w, i, rmsnorm_values<T>(w, w.load(xr, i), w.load(at.weight, i), r));
        });
      });
}

template <class T, class E>
void layernorm(const Exec& exec, const OutputWriter<E>& y, float* mean, float* rstd, T* x, const T* weight,
               const T* bias, std::int64_t rows, std::int64_t hidden, float eps) {
  constexpr int kN = kPack<T>;
  const bool fits = y.template fits<kN>(hidden, x, weight, bias);
  constexpr auto kLabel = "shard8::kernels::layernorm_forward";
  const NormForward<T> at{mean, rstd, x, weight, bias, hidden, eps, {}};
  if (forward_by_rows<true>(exec, kLabel, y, at, rows, fits)) return;
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
        const RowWriter<E> yr = y.open(team, row).from(row * hidden);
        write_row<kN>(team, yr, hidden, fits, [=](auto w, std::int64_t i) {
          return yr.put(w, i, layernorm_values(w, w.load(xr, i), w.load(weight, i), w.load(bias, i), m, r));
        });
      });
}

}  // namespace

void portable_rmsnorm_forward(const Exec& exec, const Outputs& y, const tensor::Tensor& rstd,
                              const tensor::SumOfPartials& x, const tensor::Tensor& weight, float eps) {
  constexpr auto kName = "rmsnorm_forward";
  require_rmsnorm(kName, y, rstd, x.sum, weight);
  dispatch_real(x.sum.dtype, kName, [&]<class T>(std::type_identity<T>) {
    NormForward<T> at{nullptr, rstd.as<float>(), x.sum.as<T>(), weight.as<T>(), nullptr, x.sum.cols(), eps, {}};
    for (at.count = 0; !x.made() && at.count < x.partial_sums.count(); ++at.count)
      at.partial_sums[at.count] = x.partial_sums[at.count].template as<T>();
    dispatch_outputs<T>(exec, kName, y, [&](const auto& out) { rmsnorm(exec, out, at, x.sum.rows()); });
  });
}

void portable_layernorm_forward(const Exec& exec, const Outputs& y, const tensor::Tensor& mean,
                                const tensor::Tensor& rstd, const tensor::Tensor& x, const tensor::Tensor& weight,
                                const tensor::Tensor& bias, float eps) {
  constexpr auto kName = "layernorm_forward";
  require_layernorm(kName, y, mean, rstd, x, weight, bias);
  dispatch_real(x.dtype, kName, [&]<class T>(std::type_identity<T>) {
    dispatch_outputs<T>(exec, kName, y, [&](const auto& out) {
      layernorm(exec, out, mean.as<float>(), rstd.as<float>(), x.as<T>(), weight.as<T>(), bias.as<T>(), x.rows(),
                x.cols(), eps);
    });
  });
}

namespace {

/// weight · T(x·rstd) of a row.
template <class T>
struct Rmsnorm {
  using Type = T;
  static constexpr int kInputs = 1, kParts = 1;
  const T *x, *weight;
  const float* rstd;
  std::int64_t cols;
  float row_rstd = 0;  ///< of the row that row() was called for

  template <class Lanes>
  struct In {
    Lanes x, weight;
  };
  KOKKOS_FORCEINLINE_FUNCTION Rmsnorm row(std::int64_t r) const {
    return {x + r * cols, weight, rstd + r, cols, rstd[r]};
  }
  template <class W>
  KOKKOS_FORCEINLINE_FUNCTION auto load(const W& w, std::int64_t i) const {
    return In<typename W::template Lanes<T>>{w.load(x, i), w.load(weight, i)};
  }
  template <class W, class Lanes>
  KOKKOS_FORCEINLINE_FUNCTION auto compute(const W& w, const In<Lanes>& in) const {
    const auto result = rmsnorm_values<T>(w, in.x, in.weight, row_rstd);
    return Parts<1, std::remove_const_t<decltype(result)>>{{result}};
  }
};

/// weight·(x − mean)·rstd + bias of a row.
template <class T>
struct Layernorm {
  using Type = T;
  static constexpr int kInputs = 1, kParts = 1;
  const T *x, *weight, *bias;
  const float *mean, *rstd;
  std::int64_t cols;
  float row_mean = 0, row_rstd = 0;  ///< of the row that row() was called for

  template <class Lanes>
  struct In {
    Lanes x, weight, bias;
  };
  KOKKOS_FORCEINLINE_FUNCTION Layernorm row(std::int64_t r) const {
    return {x + r * cols, weight, bias, mean + r, rstd + r, cols, mean[r], rstd[r]};
  }
  template <class W>
  KOKKOS_FORCEINLINE_FUNCTION auto load(const W& w, std::int64_t i) const {
    return In<typename W::template Lanes<T>>{w.load(x, i), w.load(weight, i), w.load(bias, i)};
  }
  template <class W, class Lanes>
  KOKKOS_FORCEINLINE_FUNCTION auto compute(const W& w, const In<Lanes>& in) const {
    return Parts<1, Values<W::kCount>>{{layernorm_values(w, in.x, in.weight, in.bias, row_mean, row_rstd)}};
  }
};

/// Writes y. Returns whether the transposed cast was written as well.
template <class E, class Formula>
bool write(const Exec& exec, const char* label, const OutputWriter<E>& y, const Formula& formula, std::int64_t rows,
           bool fits) {
  constexpr int kN = kPack<typename Formula::Type>;
  const std::int64_t cols = formula.cols;
  if (write_tiles(exec, label, y, formula, rows, cols, fits)) return true;
  for_rows(
      exec, label, rows, SHARD8_LAMBDA(const Team& team, std::int64_t row) {
        const Formula of = formula.row(row);
        const RowWriter<E> out = y.open(team, row).from(row * cols);
        write_row<kN>(team, out, cols, fits,
                      [=](auto w, std::int64_t i) { return out.put(w, i, of.compute(w, of.load(w, i)).part[0]); });
      });
  return false;
}

}  // namespace

void rmsnorm_recompute(const Exec& exec, const Outputs& y, const tensor::Tensor& rstd, const tensor::Tensor& x,
                       const tensor::Tensor& weight) {
  constexpr auto kName = "rmsnorm_recompute";
  const auto rows = x.rows(), hidden = x.cols();
  require_outputs(kName, "y", y, rows * hidden);
  require_count(kName, "rstd", rstd, rows);
  require_count(kName, "weight", weight, hidden);
  dispatch_real(x.dtype, kName, [&]<class T>(std::type_identity<T>) {
    const Rmsnorm<T> formula{x.as<T>(), weight.as<T>(), rstd.as<float>(), hidden};
    if (write_panels(exec, "shard8::kernels::rmsnorm_recompute", y, formula, rows, hidden,
                     packs_fit<kPack<T>>(hidden, formula.x, formula.weight)))
      return;
    dispatch_outputs<T>(exec, kName, y, [&](const auto& out) {
      const bool fits = out.template fits<kPack<T>>(hidden, formula.x, formula.weight);
      return write(exec, "shard8::kernels::rmsnorm_recompute", out, formula, rows, fits);
    });
  });
}

void layernorm_recompute(const Exec& exec, const Outputs& y, const tensor::Tensor& mean, const tensor::Tensor& rstd,
                         const tensor::Tensor& x, const tensor::Tensor& weight, const tensor::Tensor& bias) {
  constexpr auto kName = "layernorm_recompute";
  const auto rows = x.rows(), hidden = x.cols();
  require_outputs(kName, "y", y, rows * hidden);
  require_count(kName, "mean", mean, rows);
  require_count(kName, "rstd", rstd, rows);
  require_count(kName, "weight", weight, hidden);
  require_count(kName, "bias", bias, hidden);
  dispatch_real(x.dtype, kName, [&]<class T>(std::type_identity<T>) {
    const Layernorm<T> formula{x.as<T>(), weight.as<T>(), bias.as<T>(), mean.as<float>(), rstd.as<float>(), hidden};
    dispatch_outputs<T>(exec, kName, y, [&](const auto& out) {
      const bool fits = out.template fits<kPack<T>>(hidden, formula.x, formula.weight, formula.bias);
      return write(exec, "shard8::kernels::layernorm_recompute", out, formula, rows, fits);
    });
  });
}

}  // namespace shard8::kernels
