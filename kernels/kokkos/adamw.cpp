// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/adamw.hpp"

#include <bit>
#include <cmath>

#include "kernels/kokkos/dispatch.hpp"
#include "kernels/kokkos/emit.hpp"
#include "kernels/kokkos/master_halves.hpp"

namespace shard8::kernels {
namespace {

/// The scalars as the kernel wants them.
struct Factors {
  explicit Factors(const AdamwScalars& s)
      : gradient_scale(static_cast<float>(s.gradient_scale)),
        beta1(static_cast<float>(s.beta1)),
        new1(static_cast<float>(1.0 - s.beta1)),
        beta2(static_cast<float>(s.beta2)),
        new2(static_cast<float>(1.0 - s.beta2)),
        decay(static_cast<float>(1.0 - s.lr * s.weight_decay)),
        rate(static_cast<float>(s.lr / correction(s.beta1, s.step))),
        inverse_root2(static_cast<float>(1.0 / std::sqrt(correction(s.beta2, s.step)))),
        eps(static_cast<float>(s.eps)) {}

  float gradient_scale, beta1, new1, beta2, new2, decay, rate, inverse_root2, eps;

 private:
  static double correction(double beta, std::int64_t step) {
    return 1.0 - std::pow(beta, static_cast<double>(step + 1));
  }
};

/// The master in fp32; update() stores it and returns the weight, p or bf16(p).
template <bool kThroughBf16>
struct WholeMaster {
  float* p;
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
/// The master as bf16 weight and remainder.
struct SplitMaster {
  tensor::BFloat16* weight;
  std::int16_t* remainder;
  template <class W>
  KOKKOS_FORCEINLINE_FUNCTION auto load(const W& w, std::int64_t i) const {
    const auto high = w.load(weight, i);
    const auto low = w.load(remainder, i);
    return w.each([&](int j) { return join(high.raw(j), low.raw(j)); });
  }
  template <class W>
  KOKKOS_FORCEINLINE_FUNCTION auto update(const W& w, std::int64_t i, const Values<W::kCount>& values) const {
    w.fill(weight, i, [&](int j) { return split(values[j]).weight; });
    w.fill(remainder, i, [&](int j) { return split(values[j]).remainder; });
    return w.each([&](int j) { return static_cast<float>(split(values[j]).weight); });
  }
  template <int N>
  bool fits() const {
    return packs_fit<N>(N, weight, remainder);
  }
};

template <class E, class Master, class Moment>
struct Step {
  Master master;
  Moment *first, *second;
  const float* gradient;
  Factors factors;

  template <class W>
  KOKKOS_FORCEINLINE_FUNCTION CastStats operator()(const Sink<E>& out, const W& w, std::int64_t i) const {
    const Factors& f = factors;
    const auto g = w.load(gradient, i);
    const auto m0 = w.load(first, i), v0 = w.load(second, i);
    const auto p0 = master.load(w, i);
    const auto scaled = w.each([&](int j) { return g[j] * f.gradient_scale; });
    const auto m = w.each([&](int j) { return f.beta1 * m0[j] + f.new1 * scaled[j]; });
    const auto v = w.each([&](int j) { return f.beta2 * v0[j] + f.new2 * scaled[j] * scaled[j]; });
    w.store(first, i, m);
    w.store(second, i, v);
    const auto p =
        w.each([&](int j) { return p0[j] * f.decay - f.rate * m[j] / (Kokkos::sqrt(v[j]) * f.inverse_root2 + f.eps); });
    const auto weight = master.update(w, i, p);
    return out.put(w, i, w.each([&](int j) { return weight[j]; }));
  }
};

template <class E, class Master, class Moment>
void step(const Exec& exec, const Emitter<E>& weights, const Master& master, Moment* first, Moment* second,
          const float* gradient, std::int64_t count, const Factors& factors) {
  constexpr int kN = kPack<float>;
  const bool fits = weights.template fits<kN>(kN, first, second, gradient) && master.template fits<kN>();
  emit_each<kN, 1>(exec, "shard8::kernels::adamw_step", weights, count, fits,
                   Step<E, Master, Moment>{master, first, second, gradient, factors});
}

/// Calls f(master): how it is stored and what its weights are.
template <class F>
void dispatch_master(const AdamwTensors& t, bool through_bf16, const F& f) {
  if (t.master.dtype == tensor::DType::bf16) {
    f(SplitMaster{t.master.as<tensor::BFloat16>(), t.remainder.as<std::int16_t>()});
  } else if (through_bf16) {
    f(WholeMaster<true>{t.master.as<float>()});
  } else {
    f(WholeMaster<false>{t.master.as<float>()});
  }
}

}  // namespace

void adamw_step(const Exec& exec, const AdamwTensors& tensors, const AdamwScalars& scalars, const Outputs& weights,
                bool through_bf16) {
  constexpr auto kName = "adamw_step";
  const auto count = tensors.master.count();
  const bool in_halves = tensors.master.dtype == tensor::DType::bf16;
  require_count(kName, "remainder", tensors.remainder, in_halves ? count : 0);
  require_count(kName, "m", tensors.m, count);
  require_count(kName, "v", tensors.v, count);
  require_count(kName, "g", tensors.g, count);
  const bool emits = has_cast(weights) || !weights.amax.empty();
  if (emits) {
    Outputs asked = weights;
    asked.plain = {};
    require_outputs(kName, "weights", asked, count);
  }
  const Factors factors(scalars);
  const float* gradient = tensors.g.as<float>();
  dispatch_real(tensors.m.dtype, kName, [&]<class Moment>(std::type_identity<Moment>) {
    auto *m = tensors.m.as<Moment>(), *v = tensors.v.as<Moment>();
    const auto run = [&](const auto& out, const auto& master) {
      step(exec, out, master, m, v, gradient, count, factors);
    };
    const bool rounds = through_bf16 && emits;  // without weights to leave both forms are the same
    dispatch_master(tensors, rounds, [&](const auto& master) {
      const bool left = dispatch_stats<float, false>(exec, kName, weights, static_cast<float*>(nullptr),
                                                     [&](const auto& out) { run(out, master); });
      if (!left) run(Emitter<Emits<float, void, false, false>>{}, master);
    });
  });
}

}  // namespace shard8::kernels
