// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/adamw.hpp"
#include "kernels/kokkos/square_segments.hpp"
#include "kernels/kokkos/write_outputs.hpp"
#include "tensor/float8.hpp"

/// A step of AdamW on elements of a shard, for every type of master and moments.
namespace shard8::kernels {

/// AdamwScalars as factors in fp32.
struct Factors {
  explicit Factors(const AdamwScalars& s)
      : gradient_scale(static_cast<float>(s.gradient_scale)),
        beta1(static_cast<float>(s.beta1)),
        new1(static_cast<float>(1.0 - s.beta1)),
        beta2(static_cast<float>(s.beta2)),
        new2(static_cast<float>(1.0 - s.beta2)),
        rate(static_cast<float>(s.lr / correction(s.beta1, s.step))),
        inverse_root2(static_cast<float>(1.0 / std::sqrt(correction(s.beta2, s.step)))),
        eps(static_cast<float>(s.eps)) {}

  float gradient_scale, beta1, new1, beta2, new2, rate, inverse_root2, eps;

 private:
  static double correction(double beta, std::int64_t step) {
    return 1.0 - std::pow(beta, static_cast<double>(step + 1));
  }
};

/// A master in fp32. update() stores it and returns the weights: p or bf16(p).
template <bool kThroughBf16>
struct WholeMaster {
  float* p = nullptr;
  static WholeMaster of(const AdamwTensors& t) { return {t.master.as<float>()}; }
  template <class W>
  KOKKOS_FORCEINLINE_FUNCTION auto load(const W& w, std::int64_t i) const {
    return w.load(p, i);
  }
  template <class W>
  KOKKOS_FORCEINLINE_FUNCTION auto update(const W& w, std::int64_t i, const Values<W::kCount>& values) const {
    w.store(p, i, values);
    if constexpr (kThroughBf16) return w.template round<tensor::BFloat16>(values);
    if constexpr (!kThroughBf16) return values;
  }
  template <int N>
  bool fits() const {
    return packs_fit<N>(N, p);
  }
};
/// A master stored as a bf16 weight and a remainder.
struct SplitMaster {
  tensor::BFloat16* weight = nullptr;
  std::int16_t* remainder = nullptr;
  static SplitMaster of(const AdamwTensors& t) {
    return {t.master.as<tensor::BFloat16>(), t.remainder.as<std::int16_t>()};
  }
  template <class W>
  KOKKOS_FORCEINLINE_FUNCTION auto load(const W& w, std::int64_t i) const {
    const auto high = w.load(weight, i);
    const auto low = w.load(remainder, i);
    return w.each([&](int j) { return tensor::join_halves(high.raw(j), low.raw(j)); });
  }
  template <class W>
  KOKKOS_FORCEINLINE_FUNCTION auto update(const W& w, std::int64_t i, const Values<W::kCount>& values) const {
    w.fill(weight, i, [&](int j) { return tensor::split_halves(values[j]).weight; });
    w.fill(remainder, i, [&](int j) { return tensor::split_halves(values[j]).remainder; });
    return w.each([&](int j) { return static_cast<float>(tensor::split_halves(values[j]).weight); });
  }
  template <int N>
  bool fits() const {
    return packs_fit<N>(N, weight, remainder);
  }
};

/// The tensors of a parameter that a step reads and writes.
template <class Master, class Moment>
struct Step {
  Master master;
  Moment *first = nullptr, *second = nullptr;
  const float* gradient = nullptr;
  float decay = 1;

  /// Updates the elements at i, whose gradient before scaling is g, and writes their weights.
  template <class Output, class W, class Gradient>
  KOKKOS_FORCEINLINE_FUNCTION CastStats put(const Factors& f, const RowWriter<Output>& writer, const W& w,
                                            std::int64_t i, const Gradient& g) const {
    const auto m0 = w.load(first, i), v0 = w.load(second, i);
    const auto p0 = master.load(w, i);
    const auto scaled = w.each([&](int j) { return g[j] * f.gradient_scale; });
    const auto m = w.each([&](int j) { return f.beta1 * m0[j] + f.new1 * scaled[j]; });
    const auto v = w.each([&](int j) { return f.beta2 * v0[j] + f.new2 * scaled[j] * scaled[j]; });
    w.store(first, i, m);
    w.store(second, i, v);
    const auto p =
        w.each([&](int j) { return p0[j] * decay - f.rate * m[j] / (Kokkos::sqrt(v[j]) * f.inverse_root2 + f.eps); });
    const auto weight = master.update(w, i, p);
    return writer.put(w, i, w.each([&](int j) { return weight[j]; }));
  }
};

/// A parameter whose weights are written as E.
template <class E, class Master, class Moment>
struct Shard {
  OutputWriter<E> out;
  Step<Master, Moment> step;
  double* squares = nullptr;  ///< the sums of squares of the gradient's segments; null where none are requested
  SquareSegments segments;
  std::int64_t count = 0;
  bool fits = false;  ///< whether its memory can be read in packs of kPack<float> elements

  static Shard of(const AdamwUpdate& update, const AdamwScalars& scalars) {
    const AdamwTensors& t = update.tensors;
    constexpr int kN = kPack<float>;
    Shard shard;
    if (has_cast(update.weights) || !update.weights.amax.empty())
      shard.out = OutputWriter<E>::of(update.weights, nullptr);
    Step<Master, Moment>& step = shard.step;
    step = {Master::of(t), t.m.as<Moment>(), t.v.as<Moment>(), t.g.as<float>()};
    if (update.decays) step.decay = static_cast<float>(1.0 - scalars.lr * scalars.weight_decay);
    if (!t.squares.empty()) shard.squares = words_of<double>(t.squares);
    shard.segments = SquareSegments::of(t.g);
    shard.count = t.master.count();
    shard.fits =
        shard.out.template fits<kN>(kN, step.first, step.second, step.gradient) && step.master.template fits<kN>();
    return shard;
  }
};

/// The output types of an update that writes no weights.
using Nothing = OutputTypes<float, void, false, false>;

}  // namespace shard8::kernels
