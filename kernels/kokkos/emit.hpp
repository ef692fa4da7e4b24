// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <cstdint>
#include <string>
#include <type_traits>

#include "kernels/kokkos/cast.hpp"
#include "kernels/kokkos/dispatch.hpp"
#include "kernels/kokkos/loops.hpp"
#include "kernels/quantize.hpp"

/// How a kernel leaves what it makes in Outputs. What there is to leave is chosen once, outside all
/// loops: each choice is a type of its own, and that of a plain output alone is a plain store.
namespace shard8::kernels {

/// What a kernel leaves: the number itself in T, its amax, its cast to Q (void: none; with a cast the
/// amax and the counts cost nothing and are always made).
template <class T, class Q, bool plain, bool amax>
struct Emits {
  using Type = T;
  using Format = Q;
  static constexpr bool kPlain = plain;
  static constexpr bool kCast = !std::is_void_v<Q>;
  static constexpr bool kStats = amax || kCast;
};

/// Where the elements of a row go; element 0 is its first.
template <class E>
struct Sink {
  typename E::Type* plain;
  typename E::Format* quantized;
  float scale;
  CastTotals totals;

  /// Element i is `made`, rounded to the compute dtype first (written twice: a bf16 that is stored and
  /// read from one variable keeps GCC 12 from vector code).
  KOKKOS_INLINE_FUNCTION CastStats put(std::int64_t i, float made) const {
    if constexpr (E::kPlain) plain[i] = static_cast<typename E::Type>(made);
    const auto rounded = static_cast<float>(static_cast<typename E::Type>(made));
    CastStats stats;
    if constexpr (E::kCast) {
      stats = cast_element(quantized[i], rounded, scale);
    } else if constexpr (E::kStats) {
      stats.amax = magnitude(rounded);
    }
    return stats;
  }
  KOKKOS_INLINE_FUNCTION Sink from(std::int64_t first) const {
    Sink sink = *this;
    if constexpr (E::kPlain) sink.plain += first;
    if constexpr (E::kCast) sink.quantized += first;
    return sink;
  }
};

/// Outputs on the device.
template <class E>
struct Emitter {
  typename E::Type* plain = nullptr;
  typename E::Format* quantized = nullptr;
  const float* scale = nullptr;
  float* scale_inv = nullptr;
  CastTotals totals;

  /// The whole tensor, as part `part` of the kernel sees it; the part 0 leaves 1/scale.
  KOKKOS_INLINE_FUNCTION Sink<E> open(const Team& team, std::int64_t part) const {
    Sink<E> sink{plain, quantized, 1.0f, totals};
    if constexpr (E::kCast) {
      sink.scale = *scale;
      if (part == 0) once(team, [to = scale_inv, factor = sink.scale] { *to = 1.0f / factor; });
    }
    return sink;
  }
};

/// f(i) for i in [0, n), which puts what it makes of i and returns the stats of that.
template <class E, class F>
KOKKOS_INLINE_FUNCTION void emit_row(const Team& team, const Sink<E>& sink, std::int64_t n, const F& f) {
  if constexpr (E::kStats) {
    const CastStats stats = row_stats(team, n, f);
    once(team, [stats, totals = sink.totals] { totals.add(stats); });
  } else {
    row_for(team, n, f);
  }
}

/// f(sink, i) for i in [0, count), which puts what it makes of i and returns the stats of that.
template <class E, class F>
requires(E::kStats) void emit_each(const Exec& exec, const char* label, const Emitter<E>& out, std::int64_t count,
                                   const F& f) {
  for_stretches(
      exec, label, count, KOKKOS_LAMBDA(const Team& team, std::int64_t first, std::int64_t n) {
        const Sink<E> sink = out.open(team, first);
        emit_row(team, sink, n, [=](std::int64_t i) { return f(sink, first + i); });
      });
}
template <class E, class F>
requires(!E::kStats) void emit_each(const Exec& exec, const char* label, const Emitter<E>& out, std::int64_t count,
                                    const F& f) {
  const Sink<E> sink{out.plain, nullptr, 1.0f, {}};
  for_each(
      exec, label, count, KOKKOS_LAMBDA(std::int64_t i) { f(sink, i); });
}

/// Where there are no elements, nobody opens the output.
inline void leave_scale(const Exec& exec, const char* kernel, float* scale_inv, const float* scale) {
  for_each(
      exec, (std::string("shard8::kernels::") + kernel).c_str(), 1,
      KOKKOS_LAMBDA(std::int64_t) { *scale_inv = 1.0f / *scale; });
}

/// Whether there is a cast to make: a shard without elements still has a scale.
inline bool has_cast(const Outputs& out) { return !out.quantized.empty() || !out.quantized.scale_inv.empty(); }

/// The tensor whose shape is that of the result; without elements where only an amax is wanted.
inline const tensor::Tensor& result_of(const Outputs& out) {
  return out.plain.empty() && !out.quantized.empty() ? out.quantized.data : out.plain;
}

/// There is something to leave `count` elements in, and it has as many.
inline void require_outputs(const char* kernel, const char* name, const Outputs& out, std::int64_t count) {
  if (!out.plain.empty() || (!has_cast(out) && out.amax.empty())) require_count(kernel, name, out.plain, count);
  if (!out.amax.empty()) require_count(kernel, "amax", out.amax, 1);
  if (!has_cast(out)) return;
  require_count(kernel, name, out.quantized.data, count);
  SHARD8_REQUIRE(out.quantized.scaling == tensor::Scaling::tensor, "{}: {} scaled by {}; allowed is {}", kernel, name,
                 tensor::name_of(out.quantized.scaling), tensor::name_of(tensor::Scaling::tensor));
  require_count(kernel, "scale", out.scale, 1);
  require_count(kernel, "scale_inv", out.quantized.scale_inv, 1);
}

/// Calls f(emitter) if there is an amax or a cast to make; whether there is. kPlain: with `plain`.
template <class T, bool kPlain, class F>
bool dispatch_stats(const Exec& exec, const char* kernel, const Outputs& out, T* plain, const F& f) {
  const CastTotals totals{out.amax.empty() ? nullptr : out.amax.as<std::int32_t>(), out.counts};
  if (has_cast(out)) {
    const float* scale = out.scale.as<float>();
    float* scale_inv = out.quantized.scale_inv.as<float>();
    dispatch_float8(out.quantized.data.dtype, kernel, [&]<class Q>(std::type_identity<Q>) {
      f(Emitter<Emits<T, Q, kPlain, true>>{plain, out.quantized.data.as<Q>(), scale, scale_inv, totals});
    });
    if (out.quantized.empty()) leave_scale(exec, kernel, scale_inv, scale);
    return true;
  }
  if (totals.amax == nullptr) return false;
  f(Emitter<Emits<T, void, kPlain, true>>{plain, nullptr, nullptr, nullptr, totals});
  return true;
}

/// Calls f(emitter) for what there is in `out`, its plain part of type T.
template <class T, class F>
void dispatch_outputs(const Exec& exec, const char* kernel, const Outputs& out, const F& f) {
  if (out.plain.empty()) {
    dispatch_stats<T, false>(exec, kernel, out, static_cast<T*>(nullptr), f);
    return;
  }
  T* plain = out.plain.as<T>();
  if (!dispatch_stats<T, true>(exec, kernel, out, plain, f)) {
    f(Emitter<Emits<T, void, true, false>>{plain, nullptr, nullptr, nullptr, {}});
  }
}

}  // namespace shard8::kernels
