// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <type_traits>

#include "kernels/check/arguments.hpp"
#include "kernels/kokkos/cast_tiles.hpp"
#include "kernels/kokkos/emit.hpp"
#include "kernels/kokkos/loops.hpp"
#include "kernels/kokkos/norm_made.hpp"
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
  float by = 0;  ///< rstd of the row that this is

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
  KOKKOS_FORCEINLINE_FUNCTION auto make(const W& w, const In<Lanes>& in) const {
    const auto made = rmsnorm_made<T>(w, in.x, in.weight, by);
    return Parts<1, std::remove_const_t<decltype(made)>>{{made}};
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
  float middle = 0, by = 0;  ///< mean and rstd of the row that this is

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
  KOKKOS_FORCEINLINE_FUNCTION auto make(const W& w, const In<Lanes>& in) const {
    return Parts<1, Values<W::kCount>>{{layernorm_made(w, in.x, in.weight, in.bias, middle, by)}};
  }
};

/// Whether the transposed cast was left, too.
template <class E, class Maker>
bool leave(const Exec& exec, const char* label, const Emitter<E>& y, const Maker& maker, std::int64_t rows, bool fits) {
  constexpr int kN = kPack<typename Maker::Type>;
  const std::int64_t cols = maker.cols;
  if (emit_tiles(exec, label, y, maker, rows, cols, fits)) return true;
  for_rows(
      exec, label, rows, SHARD8_LAMBDA(const Team& team, std::int64_t row) {
        const Maker of = maker.row(row);
        const Sink<E> out = y.open(team, row).from(row * cols);
        emit_row<kN>(team, out, cols, fits,
                     [=](auto w, std::int64_t i) { return out.put(w, i, of.make(w, of.load(w, i)).part[0]); });
      });
  return false;
}

}  // namespace

void rmsnorm_again(const Exec& exec, const Outputs& y, const tensor::Tensor& rstd, const tensor::Tensor& x,
                   const tensor::Tensor& weight) {
  constexpr auto kName = "rmsnorm_again";
  const auto rows = x.rows(), hidden = x.cols();
  require_outputs(kName, "y", y, rows * hidden);
  require_count(kName, "rstd", rstd, rows);
  require_count(kName, "weight", weight, hidden);
  dispatch_real(x.dtype, kName, [&]<class T>(std::type_identity<T>) {
    const Rmsnorm<T> maker{x.as<T>(), weight.as<T>(), rstd.as<float>(), hidden};
    dispatch_outputs<T>(exec, kName, y, [&](const auto& out) {
      const bool fits = out.template fits<kPack<T>>(hidden, maker.x, maker.weight);
      return leave(exec, "shard8::kernels::rmsnorm_again", out, maker, rows, fits);
    });
  });
}

void layernorm_again(const Exec& exec, const Outputs& y, const tensor::Tensor& mean, const tensor::Tensor& rstd,
                     const tensor::Tensor& x, const tensor::Tensor& weight, const tensor::Tensor& bias) {
  constexpr auto kName = "layernorm_again";
  const auto rows = x.rows(), hidden = x.cols();
  require_outputs(kName, "y", y, rows * hidden);
  require_count(kName, "mean", mean, rows);
  require_count(kName, "rstd", rstd, rows);
  require_count(kName, "weight", weight, hidden);
  require_count(kName, "bias", bias, hidden);
  dispatch_real(x.dtype, kName, [&]<class T>(std::type_identity<T>) {
    const Layernorm<T> maker{x.as<T>(), weight.as<T>(), bias.as<T>(), mean.as<float>(), rstd.as<float>(), hidden};
    dispatch_outputs<T>(exec, kName, y, [&](const auto& out) {
      const bool fits = out.template fits<kPack<T>>(hidden, maker.x, maker.weight, maker.bias);
      return leave(exec, "shard8::kernels::layernorm_again", out, maker, rows, fits);
    });
  });
}

}  // namespace shard8::kernels
