// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/adamw.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "kernels/elementwise.hpp"
#include "kernels/kokkos/chunk_sums.hpp"
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
    return of(out, w, i, w.load(gradient, i));
  }
  /// The same, of a gradient that was loaded.
  template <class W, class Gradient>
  KOKKOS_FORCEINLINE_FUNCTION CastStats of(const Sink<E>& out, const W& w, std::int64_t i, const Gradient& g) const {
    const Factors& f = factors;
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

/// Elements that a team of a device takes, whose squares are one part.
constexpr std::int64_t kStretch = 8192;

/// A team's stretch on a device, and the squares of its gradient.
template <class E, class Body>
struct StretchAndSquares {
  Emitter<E> out;
  Body body;
  bool fits;
  double* parts;

  template <class AnyTeam>
  KOKKOS_INLINE_FUNCTION void operator()(const AnyTeam& team, std::int64_t first, std::int64_t n) const {
    const Sink<E> sink = out.open(team, first);
    CastStats stats;
    double squares = 0;
    row_packs<kPack<float>, 1>(team, n, fits, [&](auto w, std::int64_t i) {
      const auto g = w.load(body.gradient, first + i);
      SHARD8_UNROLL
      for (int j = 0; j < decltype(w)::kCount; ++j) squares += static_cast<double>(g[j]) * static_cast<double>(g[j]);
      stats += body.of(sink, w, first + i, g);
    });
    if constexpr (E::kStats) sink.totals.add(team, stats);
    squares = team_sum(team, squares);
    once(team, [&] { parts[first / kStretch] = squares; });
  }
};

template <class E, class Master, class Moment>
void step(const Exec& exec, const Emitter<E>& weights, const Master& master, Moment* first, Moment* second,
          const float* gradient, std::int64_t count, const Factors& factors, [[maybe_unused]] double* squares) {
  constexpr int kN = kPack<float>;
  constexpr auto kLabel = "shard8::kernels::adamw_step";
  const bool fits = weights.template fits<kN>(kN, first, second, gradient) && master.template fits<kN>();
  const Step<E, Master, Moment> body{master, first, second, gradient, factors};
  if constexpr (!kHostExec) {
    if (squares != nullptr) {
      const StretchAndSquares<E, Step<E, Master, Moment>> span{weights, body, fits, squares};
      return for_stretches<NoBounds, kStretch>(exec, kLabel, count, span);
    }
  }
  emit_each<kN, 1>(exec, kLabel, weights, count, fits, body);
}

struct SquareParts {
  const double* sums;
  template <class W>
  KOKKOS_INLINE_FUNCTION double operator()(const W&, std::int64_t i) const {
    return sums[i];
  }
};

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

std::int64_t adamw_square_parts(std::int64_t count) {
  return kHostExec ? 1 : std::max<std::int64_t>((count + kStretch - 1) / kStretch, 1);
}

void add_square_parts(const Exec& exec, const tensor::Tensor& total, const tensor::Tensor& parts) {
  constexpr auto kName = "add_square_parts";
  SHARD8_REQUIRE(parts.bytes() % sizeof(double) == 0, "{}: {} bytes are no doubles", kName, parts.bytes());
  const auto* sums = reinterpret_cast<const double*>(parts.as<std::uint8_t>());
  add_sum<1>(exec, "shard8::kernels::add_square_parts", require_total(kName, total),
             static_cast<std::int64_t>(parts.bytes() / sizeof(double)), false, SquareParts{sums},
             [=](std::int64_t first, std::int64_t last) {
               double sum = 0;
               for (std::int64_t i = first; i < last; ++i) sum += sums[i];
               return sum;
             });
}

void adamw_step(const Exec& exec, const AdamwTensors& tensors, const AdamwScalars& scalars, const Outputs& weights,
                bool through_bf16) {
  constexpr auto kName = "adamw_step";
  const auto count = tensors.master.count();
  const bool in_halves = tensors.master.dtype == tensor::DType::bf16;
  require_count(kName, "remainder", tensors.remainder, in_halves ? count : 0);
  require_count(kName, "m", tensors.m, count);
  require_count(kName, "v", tensors.v, count);
  require_count(kName, "g", tensors.g, count);
  double* squares = nullptr;
  if (!tensors.squares.empty()) {
    require_count(kName, "squares", tensors.squares,
                  adamw_square_parts(count) * static_cast<std::int64_t>(sizeof(double)));
    squares = reinterpret_cast<double*>(tensors.squares.as<std::uint8_t>());
    if constexpr (kHostExec) {  // its vector code has no room for them
      fill_zero(exec, tensors.squares);
      sum_of_squares(exec, tensors.squares, tensors.g);
    }
  }
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
      step(exec, out, master, m, v, gradient, count, factors, squares);
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
