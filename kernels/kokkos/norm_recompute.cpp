// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <type_traits>

#include "kernels/check/arguments.hpp"
#include "kernels/kokkos/cast_tiles.hpp"
#include "kernels/kokkos/loops.hpp"
#include "kernels/kokkos/norm_values.hpp"
#include "kernels/kokkos/write_outputs.hpp"
#include "kernels/kokkos/write_panels.hpp"
#include "kernels/norm.hpp"

namespace shard8::kernels {
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
