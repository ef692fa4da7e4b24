// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <cstdint>
#include <type_traits>

#include "kernels/check/arguments.hpp"
#include "kernels/kokkos/cast.hpp"
#include "kernels/kokkos/loops.hpp"
#include "kernels/kokkos/portable.hpp"
#include "kernels/quantize.hpp"

/// How a kernel writes its result to Outputs. The requested forms are chosen once, outside all loops: each choice of
/// forms is a type of its own. Where only a plain output is requested, writing is a plain store.
namespace shard8::kernels {

/// The forms that a kernel writes of its result. `plain`: the result in T. Q: the result cast to this 8-bit format
/// (void: no cast). `amax`: its amax. With a cast the amax and the counts take no extra time, so they are always
/// computed.
template <class T, class Q, bool plain, bool amax>
struct OutputTypes {
  using Type = T;
  using Format = Q;
  static constexpr bool kPlain = plain;
  static constexpr bool kCast = !std::is_void_v<Q>;
  static constexpr bool kStats = amax || kCast;
};

/// Writes the elements of a row. Element 0 is the first of the row.
template <class E>
struct RowWriter {
  typename E::Type* plain;
  typename E::Format* quantized;
  float scale;
  CastTotals totals;

  /// Writes `value`, first rounded to the compute dtype T, as element i. (`result` is converted to T twice: GCC 12
  /// makes no vector code if a bf16 is stored and read from one variable.)
  KOKKOS_FORCEINLINE_FUNCTION CastStats put(const Single&, std::int64_t i, const Values<1>& value) const {
    const float result = value.one;
    if constexpr (E::kPlain) plain[i] = static_cast<typename E::Type>(result);
    const auto rounded = static_cast<float>(static_cast<typename E::Type>(result));
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
                                            const Values<N * kPacks>& result) const {
    return put(w, i, w.template round_results<typename E::Type>(result));
  }
  /// Writes elements that are rounded to T already.
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
  /// Casts a pack of rounded bf16. Returns how many were flushed to zero. The caller must handle elements that saturate
  /// or are NaN afterwards: `pair` collects larger_pair of all packs, and may_saturate(pair) says whether there are
  /// any.
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
  KOKKOS_INLINE_FUNCTION RowWriter from(std::int64_t first) const {
    RowWriter writer = *this;
    if constexpr (E::kPlain) writer.plain += first;
    if constexpr (E::kCast) writer.quantized += first;
    return writer;
  }
};

/// Outputs as a kernel sees them: pointers of known types.
template <class E>
struct OutputWriter {
  typename E::Type* plain = nullptr;
  typename E::Format* quantized = nullptr;
  const float* scale = nullptr;
  float* scale_inv = nullptr;
  CastTotals totals = {};
  typename E::Format* transposed = nullptr;
  bool transposed_alone = false;

  /// The writer of `out`. `plain` is the memory of the plain part, or null.
  static OutputWriter of(const Outputs& out, typename E::Type* plain) {
    OutputWriter writer{plain};
    writer.totals = {out.amax.empty() ? nullptr : out.amax.as<std::int32_t>(), out.counts};
    if constexpr (E::kCast) {
      using Q = typename E::Format;
      writer.quantized = out.quantized.data.as<Q>();
      writer.scale = out.scale.as<float>();
      writer.scale_inv = out.quantized.scale_inv.as<float>();
      writer.transposed = out.transposed.empty() ? nullptr : out.transposed.as<Q>();
      writer.transposed_alone = out.transposed_alone;
    }
    return writer;
  }

  /// Whether rows of `row` elements can be read from `inputs` and written in packs of N.
  template <int N, class... T>
  bool fits(std::int64_t row, const T*... inputs) const {
    if constexpr (E::kCast) return packs_fit<N>(row, plain, quantized, inputs...);
    return packs_fit<N>(row, plain, inputs...);
  }

  /// The writer for part `part` of a kernel; element 0 is the first of the whole tensor. Part 0 writes 1/scale.
  KOKKOS_INLINE_FUNCTION RowWriter<E> open(const Team& team, std::int64_t part) const {
    RowWriter<E> writer{plain, quantized, 1.0f, totals.seen(team)};
    if constexpr (E::kCast) {
      writer.scale = *scale;
      if (part == 0) once(team, [to = scale_inv, factor = writer.scale] { *to = 1.0f / factor; });
    }
    return writer;
  }
};

/// Calls f(w, i) for i in [0, n). f writes its results for those elements and returns their stats.
template <int N, int kPacks = 2, class E, class F>
KOKKOS_INLINE_FUNCTION void write_row(const Team& team, const RowWriter<E>& writer, std::int64_t n, bool fits,
                                      const F& f) {
  if constexpr (E::kStats) {
    writer.totals.add(team, row_stats<N, kPacks>(team, n, fits, f));
  } else {
    row_packs<N, kPacks>(team, n, fits, f);
  }
}

/// Calls f(writer, w, i) for i in [0, count). f writes its results for those elements and returns their stats.
template <int N, int kPacks, class E, class F>
struct WriteSpan {
  OutputWriter<E> out;
  F f;
  bool fits;

  KOKKOS_INLINE_FUNCTION void operator()(const Team& team, std::int64_t first, std::int64_t n) const {
    const RowWriter<E> writer = out.open(team, first);
    const F& body = f;
    write_row<N, kPacks>(team, writer, n, fits, [=](auto w, std::int64_t i) { return body(writer, w, first + i); });
  }
};
template <int N, int kPacks = 2, class E, class F>
void write_each(const Exec& exec, const char* label, const OutputWriter<E>& out, std::int64_t count, bool fits,
                const F& f) {
  const WriteSpan<N, kPacks, E, F> span{out, f, fits};
  if constexpr (E::kStats) {
    for_stretches<Kokkos::LaunchBounds<kTeamThreads, N == 8 ? 4 : 2>, 2048 * N>(exec, label, count, span);
  } else {
    for_spans(exec, label, count, span);
  }
}

/// Writes 1/scale of a tensor without elements, for which no kernel calls open().
inline void write_inverse_scale(const Exec& exec, const char* kernel, float* scale_inv, const float* scale) {
  for_each(
      exec, label_of("shard8::kernels::", kernel).c_str(), 1,
      SHARD8_LAMBDA(std::int64_t) { *scale_inv = 1.0f / *scale; });
}

/// Calls f(writer) if an amax or a cast is requested, and returns whether one is requested. kPlain: `plain` is written
/// too. f may return a bool: whether it wrote the transposed cast. If it did not, the cast is transposed afterwards.
template <class T, bool kPlain, class F>
bool dispatch_stats(const Exec& exec, const char* kernel, const Outputs& out, T* plain, const F& f) {
  if (has_cast(out)) {
    bool transposed_written = false;
    dispatch_float8(out.quantized.data.dtype, kernel, [&]<class Q>(std::type_identity<Q>) {
      const auto writer = OutputWriter<OutputTypes<T, Q, kPlain, true>>::of(out, plain);
      if constexpr (std::is_void_v<decltype(f(writer))>) {
        f(writer);
      } else {
        transposed_written = f(writer);
      }
    });
    if (out.quantized.empty())
      write_inverse_scale(exec, kernel, out.quantized.scale_inv.as<float>(), out.scale.as<float>());
    if (!transposed_written && !out.transposed.empty())
      transpose_cast(exec, kernel, out.transposed, out.quantized.data);
    return true;
  }
  if (out.amax.empty()) return false;
  f(OutputWriter<OutputTypes<T, void, kPlain, true>>::of(out, plain));
  return true;
}

/// Calls f(writer) for the forms that `out` requests. T is the type of the plain part. f may return a bool, as in
/// dispatch_stats. Casts with block scales are made of the plain part afterwards.
template <class T, class F>
void dispatch_outputs(const Exec& exec, const char* kernel, const Outputs& out, const F& f) {
  if (out.plain.empty()) {
    dispatch_stats<T, false>(exec, kernel, out, static_cast<T*>(nullptr), f);
    return;
  }
  T* plain = out.plain.as<T>();
  if (!dispatch_stats<T, true>(exec, kernel, out, plain, f)) {
    f(OutputWriter<OutputTypes<T, void, true, false>>{plain});
  }
  if (!out.blocks.empty()) cast_in_blocks(exec, out.blocks, out.plain, out.counts);
}

}  // namespace shard8::kernels
