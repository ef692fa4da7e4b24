// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/check/arguments.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/kokkos/cast_tiles.hpp"
#include "kernels/kokkos/fast_math.hpp"
#include "kernels/kokkos/loops.hpp"
#include "kernels/kokkos/write_outputs.hpp"

namespace shard8::kernels {
namespace {

// (1 + tanh(u))/2 = sigmoid(2u), so gelu(x) = x·sigmoid(2u), u = sqrt(2/π)·(x + 0.044715·x³).
constexpr float kTwoRootTwoOverPi = 1.5957691216057308f;
constexpr float kCubic = 0.044715f;

/// sigmoid(2u).
KOKKOS_FORCEINLINE_FUNCTION float gate(float v) {
#if defined(__CUDA_ARCH__)
  // 2u·log2(e), for the device's 2^y.
  constexpr float kLinear = 2.30220819f, kThird = 0.102943240f;
  return fast_sigmoid_2(v * multiply_add(kThird, v * v, kLinear));
#else
  return fast_sigmoid(kTwoRootTwoOverPi * multiply_add(kCubic * v * v, v, v));
#endif
}
template <class W, class Lanes>
KOKKOS_FORCEINLINE_FUNCTION auto activated(const W& w, const Lanes& in) {
  return w.each([&](int j) { return in[j] * gate(in[j]); });
}

template <class T>
struct Forward {
  using Type = T;
  static constexpr int kInputs = 1, kParts = 1;
  const T* x;
  std::int64_t cols;

  KOKKOS_FORCEINLINE_FUNCTION Forward row(std::int64_t r) const { return {x + r * cols, cols}; }
  template <class W>
  KOKKOS_FORCEINLINE_FUNCTION auto load(const W& w, std::int64_t i) const {
    return w.load(x, i);
  }
  template <class W, class In>
  KOKKOS_FORCEINLINE_FUNCTION auto compute(const W& w, const In& in) const {
    return Parts<1, Values<W::kCount>>{{activated(w, in)}};
  }
};

template <class T>
struct Backward {
  using Type = T;
  static constexpr int kInputs = 2, kParts = 1;
  const T *da, *x;
  std::int64_t cols;

  template <class Lanes>
  struct In {
    Lanes x, da;
  };
  KOKKOS_FORCEINLINE_FUNCTION Backward row(std::int64_t r) const { return {da + r * cols, x + r * cols, cols}; }
  template <class W>
  KOKKOS_FORCEINLINE_FUNCTION auto load(const W& w, std::int64_t i) const {
    return In<typename W::template Lanes<T>>{w.load(x, i), w.load(da, i)};
  }
  template <class W, class Lanes>
  KOKKOS_FORCEINLINE_FUNCTION auto compute(const W& w, const In<Lanes>& in) const {
    return Parts<1, Values<W::kCount>>{{w.each([&](int j) {
      const float v = in.x[j];
      const float s = gate(v);
      const float slope = kTwoRootTwoOverPi * multiply_add(3.0f * kCubic * v, v, 1.0f);
      return in.da[j] * multiply_add(v * slope * s, 1.0f - s, s);
    })}};
  }
  template <class W, class Lanes>
  KOKKOS_FORCEINLINE_FUNCTION auto recompute(const W& w, const In<Lanes>& in) const {
    return activated(w, in.x);
  }
};

/// Computes and writes the result of some elements of a flat tensor.
template <class E, class Formula>
struct Each {
  Formula formula;
  template <class W>
  KOKKOS_FORCEINLINE_FUNCTION CastStats operator()(const RowWriter<E>& out, const W& w, std::int64_t i) const {
    return out.put(w, i, formula.compute(w, formula.load(w, i)).part[0]);
  }
};

/// As Each, for a cast on a device. If the part of a stretch that a thread takes may saturate, the thread computes the
/// part a second time, to count. Code that counted in each pack would take more registers, so fewer teams would run at
/// once.
template <class E, class Formula>
struct CastEach {
  using T = typename Formula::Type;
  using Bounds = Kokkos::LaunchBounds<kTeamThreads, 5>;
  static constexpr int kN = kPack<T>, kPacks = 2;

  OutputWriter<E> out;
  Formula formula;
  bool fits;

  template <class AnyTeam>
  KOKKOS_INLINE_FUNCTION void operator()(const AnyTeam& team, std::int64_t first, std::int64_t n) const {
    const RowWriter<E> writer = out.open(team, first);
    const auto result = [&](auto w, std::int64_t i) { return formula.compute(w, formula.load(w, first + i)).part[0]; };
    CastStats stats;
    std::uint32_t pair = 0;
    row_packs<kN, kPacks>(team, n, fits, [&](auto w, std::int64_t i) {
      if constexpr (decltype(w)::kCount == 1) {
        stats += writer.put(w, first + i, result(w, i));
      } else {
        const auto lanes = w.template round_results<T>(result(w, i));
        SHARD8_UNROLL
        for (int u = 0; u < decltype(w)::kCount / kN; ++u) {
          const typename Packed<kN, 1>::template Lanes<T> pack{{lanes.pack[u]}};
          stats.flushed += writer.put_unsaturated(Packed<kN, 1>{0}, first + i + u * w.stride, pack, pair);
        }
      }
    });
    CastStats more{magnitude_of(pair)};
    if (may_saturate<typename E::Format>(pair, writer.scale)) {
      more = {};
      row_packs<kN, kPacks>(team, n, fits, [&](auto w, std::int64_t i) {
        if constexpr (decltype(w)::kCount > 1) more += writer.put(w, first + i, result(w, i));
      });
      more.flushed = 0;  // the first pass counted them
    }
    stats += more;
    writer.totals.add(team, stats);
  }
};

/// Writes `out`. Returns whether the transposed cast was written as well.
template <class E, class Formula, class... T>
bool write(const Exec& exec, const char* label, const OutputWriter<E>& out, const Formula& formula, std::int64_t rows,
           const T*... inputs) {
  constexpr int kN = kPack<typename Formula::Type>;
  if (write_tiles(exec, label, out, formula, rows, formula.cols, out.template fits<kN>(formula.cols, inputs...)))
    return true;
  const bool fits = out.template fits<kN>(kN, inputs...);
  if constexpr (!kHostExec && E::kCast && !E::kPlain && kN == 8 && Formula::kInputs == 1) {
    using Cast = CastEach<E, Formula>;
    for_stretches<typename Cast::Bounds, 16384>(exec, label, rows * formula.cols, Cast{out, formula, fits});
  } else {
    write_each<kN>(exec, label, out, rows * formula.cols, fits, Each<E, Formula>{formula});
  }
  return false;
}

template <class E, class T>
bool backward(const Exec& exec, const OutputWriter<E>& dx, const Backward<T>& formula, const tensor::Tensor& x,
              const Outputs& recomputed) {
  constexpr auto kLabel = "shard8::kernels::gelu_backward";
  if (!asks_for_nothing(recomputed)) {
    const bool fits = dx.template fits<kPack<T>>(formula.cols, formula.da, formula.x);
    if (write_tiles_and_recomputed(exec, kLabel, dx, formula, x.rows(), formula.cols, fits, recomputed))
      return E::kCast;
    gelu_forward(exec, recomputed, x);
  }
  return write(exec, kLabel, dx, formula, x.rows(), formula.da, formula.x);
}

}  // namespace

void gelu_forward(const Exec& exec, const Outputs& a, const tensor::Tensor& x) {
  constexpr auto kName = "gelu_forward";
  require_outputs(kName, "a", a, x.count());
  dispatch_real(x.dtype, kName, [&]<class T>(std::type_identity<T>) {
    const Forward<T> formula{x.as<T>(), x.cols()};
    dispatch_outputs<T>(exec, kName, a, [&](const auto& out) {
      return write(exec, "shard8::kernels::gelu_forward", out, formula, x.rows(), formula.x);
    });
  });
}

void gelu_backward(const Exec& exec, const Outputs& dx, const tensor::Tensor& da, const tensor::Tensor& x,
                   const Outputs& recomputed) {
  constexpr auto kName = "gelu_backward";
  require_outputs(kName, "dx", dx, x.count());
  require_count(kName, "da", da, x.count());
  if (!asks_for_nothing(recomputed)) require_outputs(kName, "recomputed", recomputed, x.count());
  dispatch_real(x.dtype, kName, [&]<class T>(std::type_identity<T>) {
    const Backward<T> formula{da.as<T>(), x.as<T>(), x.cols()};
    dispatch_outputs<T>(exec, kName, dx, [&](const auto& out) { return backward(exec, out, formula, x, recomputed); });
  });
}

}  // namespace shard8::kernels
