// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <cstdint>
#include <type_traits>

#include "kernels/check/outputs.hpp"
#include "kernels/kokkos/cast.hpp"
#include "kernels/kokkos/loops.hpp"
#include "kernels/kokkos/portable.hpp"
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
  KOKKOS_FORCEINLINE_FUNCTION CastStats put(const Single&, std::int64_t i, const Values<1>& value) const {
    const float made = value.one;
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
  template <int N, int kPacks>
  KOKKOS_FORCEINLINE_FUNCTION CastStats put(const Packed<N, kPacks>& w, std::int64_t i,
                                            const Values<N * kPacks>& made) const {
    return put(w, i, w.template round_results<typename E::Type>(made));
  }
  /// Elements that are rounded.
  template <int N, int kPacks>
  KOKKOS_FORCEINLINE_FUNCTION CastStats
  put(const Packed<N, kPacks>& w, std::int64_t i,
      const typename Packed<N, kPacks>::template Lanes<typename E::Type>& rounded) const {
    if constexpr (E::kPlain) w.store_lanes(plain, i, rounded);
    CastStats stats;
    if constexpr (E::kCast) {
      stats = cast_lanes(w, quantized, i, rounded, scale);
    } else if constexpr (E::kStats) {
      stats.amax = larger_magnitude(w, rounded, 0);
    }
    return stats;
  }
  /// A cast of a pack of bf16 that are rounded, but for what saturates and codes of NaN: may_saturate tells of `pair`,
  /// that of larger_pair so far. How many were flushed.
  template <int N>
  KOKKOS_FORCEINLINE_FUNCTION std::int32_t put_unsaturated(
      const Packed<N, 1>& w, std::int64_t i, const typename Packed<N, 1>::template Lanes<typename E::Type>& rounded,
      std::uint32_t& pair) const {
    if constexpr (E::kPlain) w.store_lanes(plain, i, rounded);
    pair = larger_pair(pair, largest_pair(rounded.pack[0]));
    const auto codes = round_numbers<typename E::Format, N>(rounded, 0, scale);
    store_global(quantized + i, codes);
    return count_flushed(codes, rounded, 0);
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
  CastTotals totals = {};
  typename E::Format* transposed = nullptr;
  bool transposed_alone = false;

  /// What there is in `out`, its plain part at `plain`.
  static Emitter of(const Outputs& out, typename E::Type* plain) {
    Emitter emitter{plain};
    emitter.totals = {out.amax.empty() ? nullptr : out.amax.as<std::int32_t>(), out.counts};
    if constexpr (E::kCast) {
      using Q = typename E::Format;
      emitter.quantized = out.quantized.data.as<Q>();
      emitter.scale = out.scale.as<float>();
      emitter.scale_inv = out.quantized.scale_inv.as<float>();
      emitter.transposed = out.transposed.empty() ? nullptr : out.transposed.as<Q>();
      emitter.transposed_alone = out.transposed_alone;
    }
    return emitter;
  }

  /// Whether rows of this many elements can be put in packs of N.
  template <int N, class... T>
  bool fits(std::int64_t row, const T*... inputs) const {
    if constexpr (E::kCast) return packs_fit<N>(row, plain, quantized, inputs...);
    return packs_fit<N>(row, plain, inputs...);
  }

  /// The whole tensor, as part `part` of the kernel sees it; the part 0 leaves 1/scale.
  KOKKOS_INLINE_FUNCTION Sink<E> open(const Team& team, std::int64_t part) const {
    Sink<E> sink{plain, quantized, 1.0f, totals.seen(team)};
    if constexpr (E::kCast) {
      sink.scale = *scale;
      if (part == 0) once(team, [to = scale_inv, factor = sink.scale] { *to = 1.0f / factor; });
    }
    return sink;
  }
};

/// f(w, i) for i in [0, n), which puts what it makes of those elements and returns the stats of that.
template <int N, int kPacks = 2, class E, class F>
KOKKOS_INLINE_FUNCTION void emit_row(const Team& team, const Sink<E>& sink, std::int64_t n, bool fits, const F& f) {
  if constexpr (E::kStats) {
    sink.totals.add(team, row_stats<N, kPacks>(team, n, fits, f));
  } else {
    row_packs<N, kPacks>(team, n, fits, f);
  }
}

/// f(sink, w, i) for i in [0, count), which puts what it makes of those elements and returns the stats
/// of that.
template <int N, int kPacks, class E, class F>
struct EmitSpan {
  Emitter<E> out;
  F f;
  bool fits;

  KOKKOS_INLINE_FUNCTION void operator()(const Team& team, std::int64_t first, std::int64_t n) const {
    const Sink<E> sink = out.open(team, first);
    const F& body = f;
    emit_row<N, kPacks>(team, sink, n, fits, [=](auto w, std::int64_t i) { return body(sink, w, first + i); });
  }
};
template <int N, int kPacks = 2, class E, class F>
void emit_each(const Exec& exec, const char* label, const Emitter<E>& out, std::int64_t count, bool fits, const F& f) {
  const EmitSpan<N, kPacks, E, F> span{out, f, fits};
  if constexpr (E::kStats) {
    for_stretches<Kokkos::LaunchBounds<kTeamThreads, N == 8 ? 4 : 2>, 2048 * N>(exec, label, count, span);
  } else {
    for_spans(exec, label, count, span);
  }
}

/// Where there are no elements, nobody opens the output.
inline void leave_scale(const Exec& exec, const char* kernel, float* scale_inv, const float* scale) {
  for_each(
      exec, label_of("shard8::kernels::", kernel).c_str(), 1,
      SHARD8_LAMBDA(std::int64_t) { *scale_inv = 1.0f / *scale; });
}

/// Calls f(emitter) if there is an amax or a cast to make; whether there is. kPlain: with `plain`. f may say
/// that it left the transposed cast, too.
template <class T, bool kPlain, class F>
bool dispatch_stats(const Exec& exec, const char* kernel, const Outputs& out, T* plain, const F& f) {
  if (has_cast(out)) {
    bool turned = false;
    dispatch_float8(out.quantized.data.dtype, kernel, [&]<class Q>(std::type_identity<Q>) {
      const auto emitter = Emitter<Emits<T, Q, kPlain, true>>::of(out, plain);
      if constexpr (std::is_void_v<decltype(f(emitter))>) {
        f(emitter);
      } else {
        turned = f(emitter);
      }
    });
    if (out.quantized.empty()) leave_scale(exec, kernel, out.quantized.scale_inv.as<float>(), out.scale.as<float>());
    if (!turned && !out.transposed.empty()) transpose_cast(exec, kernel, out.transposed, out.quantized.data);
    return true;
  }
  if (out.amax.empty()) return false;
  f(Emitter<Emits<T, void, kPlain, true>>::of(out, plain));
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
    f(Emitter<Emits<T, void, true, false>>{plain});
  }
}

}  // namespace shard8::kernels
