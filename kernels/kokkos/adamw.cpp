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
  KOKKOS_INLINE_FUNCTION float load(std::int64_t i) const { return p[i]; }
  KOKKOS_INLINE_FUNCTION float update(std::int64_t i, float value) const {
    p[i] = value;
    return kThroughBf16 ? static_cast<float>(tensor::BFloat16(value)) : value;
  }
};
/// The master as bf16 weight and remainder.
struct SplitMaster {
  tensor::BFloat16* weight;
  std::int16_t* remainder;
  KOKKOS_INLINE_FUNCTION float load(std::int64_t i) const { return join(weight[i], remainder[i]); }
  KOKKOS_INLINE_FUNCTION float update(std::int64_t i, float value) const {
    const MasterHalves halves = split(value);
    weight[i].bits = halves.weight;
    remainder[i] = halves.remainder;
    return std::bit_cast<float>(static_cast<std::uint32_t>(halves.weight) << 16);
  }
};

template <class E, class Master, class Moment>
void step(const Exec& exec, const Emitter<E>& weights, const Master& master, Moment* first, Moment* second,
          const float* gradient, std::int64_t count, const Factors& factors) {
  emit_each(
      exec, "shard8::kernels::adamw_step", weights, count, KOKKOS_LAMBDA(const Sink<E>& out, std::int64_t i) {
        const Factors& f = factors;
        const float scaled = gradient[i] * f.gradient_scale;
        const float m = f.beta1 * static_cast<float>(first[i]) + f.new1 * scaled;
        const float v = f.beta2 * static_cast<float>(second[i]) + f.new2 * scaled * scaled;
        first[i] = static_cast<Moment>(m);
        second[i] = static_cast<Moment>(v);
        const float p = master.load(i) * f.decay - f.rate * m / (Kokkos::sqrt(v) * f.inverse_root2 + f.eps);
        return out.put(i, master.update(i, p));
      });
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
