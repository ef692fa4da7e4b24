// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <bit>
#include <cfloat>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "base/error.hpp"
#include "kernels/check/arguments.hpp"
#include "kernels/kokkos/cast_totals.hpp"
#include "kernels/kokkos/loops.hpp"
#include "kernels/quantize.hpp"

/// The parts of kernels that cast to 8 bits. Such kernels are compiled without contraction to FMA
/// (SHARD8_EXACT_KERNELS in kernels/CMakeLists.txt), so that they give the same bytes everywhere.
namespace shard8::kernels {

inline constexpr std::uint32_t kInfinityBits = 0x7f800000u;

/// The bits of |x|. As integers they have the order of the numbers; NaN is above all.
KOKKOS_INLINE_FUNCTION std::int32_t magnitude(float x) {
  return static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(x) & 0x7fffffffu);
}

/// The largest power of two not above x, which is positive and finite, subnormal or not.
KOKKOS_INLINE_FUNCTION float floor_to_power_of_2(float x) {
  const bool subnormal = x < FLT_MIN;
  const auto bits = std::bit_cast<std::uint32_t>(subnormal ? x * 0x1p24f : x);
  const float floored = std::bit_cast<float>(bits & kInfinityBits);
  return subnormal ? floored * 0x1p-24f : floored;
}

/// The scale of an amax, see ScaleRule.
KOKKOS_INLINE_FUNCTION float scale_from_amax(float amax, const ScaleRule& rule, float otherwise) {
  // 2^−margin, in two factors so that each is a normal number: |margin| <= 252.
  const int half = rule.margin / 2, rest = rule.margin - half;
  const float largest = rule.largest * std::bit_cast<float>(static_cast<std::uint32_t>(127 - half) << 23) *
                        std::bit_cast<float>(static_cast<std::uint32_t>(127 - rest) << 23);
  const float quotient = largest / amax;
  const float finite = quotient > FLT_MAX ? FLT_MAX : quotient;
  const float scale = rule.power_of_2 ? floor_to_power_of_2(finite) : finite;
  return amax > 0 && amax <= FLT_MAX ? scale : otherwise;
}

/// x as floats.
template <class T>
struct Source {
  using Type = T;
  const T* x;
  template <class W>
  KOKKOS_FORCEINLINE_FUNCTION auto load(const W& w, std::int64_t i) const {
    return w.load(x, i);
  }
  KOKKOS_INLINE_FUNCTION Source from(std::int64_t first) const { return {x + first}; }
};
/// bf16(x).
struct SourceThroughBf16 {
  using Type = float;
  const float* x;
  KOKKOS_FORCEINLINE_FUNCTION Values<1> load(const Single&, std::int64_t i) const {
    Values<1> values;
    values.one = static_cast<float>(tensor::BFloat16(x[i]));
    return values;
  }
  template <int N, int kPacks>
  KOKKOS_FORCEINLINE_FUNCTION auto load(const Packed<N, kPacks>& w, std::int64_t i) const {
    return w.template round<tensor::BFloat16>(w.load(x, i));
  }
  KOKKOS_INLINE_FUNCTION SourceThroughBf16 from(std::int64_t first) const { return {x + first}; }
};

/// Calls f(source) for x, fp32 or bf16.
template <class F>
void dispatch_source(const tensor::Tensor& x, bool through_bf16, const char* kernel, const F& f) {
  if (x.dtype == tensor::DType::bf16) return f(Source<tensor::BFloat16>{x.as<tensor::BFloat16>()});
  SHARD8_REQUIRE(x.dtype == tensor::DType::fp32, "{}: dtype {}; allowed are fp32 and bf16", kernel,
                 tensor::name_of(x.dtype));
  if (through_bf16) return f(SourceThroughBf16{x.as<float>()});
  f(Source<float>{x.as<float>()});
}

/// out = cast(x·scale); returns the stats of that element.
template <class Q>
KOKKOS_INLINE_FUNCTION CastStats cast_element(Q& out, float x, float scale) {
  const std::int32_t in = magnitude(x);
#if defined(__CUDA_ARCH__)
  const float scaled = in > static_cast<std::int32_t>(kInfinityBits) ? x : x * scale;  // NaN would lose its sign
#else
  const float scaled = x * scale;
#endif
  out = Q(scaled);
  const std::int32_t above = magnitude(scaled);
  const auto largest = std::bit_cast<std::int32_t>(Q::kRoundsToMax);
  CastStats stats;
  stats.amax = in;
  stats.saturated = static_cast<std::int32_t>((above > largest) & (above <= static_cast<std::int32_t>(kInfinityBits)));
  stats.flushed = static_cast<std::int32_t>((in != 0) & ((out.bits & 0x7fu) == 0));
  return stats;
}

/// What a cast of a few packs shows without counting. The largest magnitude says whether an element may saturate or is
/// NaN. A code of zero says that an element may be flushed. Both are rare, so elements are counted only then.
struct CastSigns {
  std::int32_t amax = 0;
  std::uint32_t no_zero = 0x80808080u;  ///< this value means that no code is zero

  KOKKOS_FORCEINLINE_FUNCTION void see(float x) {
    const std::int32_t one = magnitude(x);
    amax = one > amax ? one : amax;
  }
  template <class Q>
  KOKKOS_FORCEINLINE_FUNCTION bool rare(float scale) const {
    return !(std::bit_cast<float>(amax) * scale <= Q::kRoundsToMax) || no_zero != 0x80808080u;
  }
};

/// One scale for all elements.
struct OneScale {
  float scale;
  KOKKOS_FORCEINLINE_FUNCTION float operator[](int) const { return scale; }
};

/// N numbers rounded to the format; not for NaN.
template <class Q, int N>
KOKKOS_FORCEINLINE_FUNCTION Words<N> round_scaled(CastSigns& signs, const float (&scaled)[N]) {
  Words<N> codes;
  SHARD8_UNROLL
  for (int k = 0; k < N; k += 4) {
    codes.word[k / 4] = tensor::cast_to_codes<Q>(scaled[k], scaled[k + 1], scaled[k + 2], scaled[k + 3]);
  }
  SHARD8_UNROLL
  for (int k = 0; k < N / 4; ++k) signs.no_zero &= tensor::nonzero_codes(codes.word[k]);
  return codes;
}

/// codes = cast(x·scale) of N elements. Codes of NaN are wrong until count_pack corrects them.
template <class Q, int N>
KOKKOS_FORCEINLINE_FUNCTION void cast_numbers(Words<N>& codes, CastSigns& signs, const float (&x)[N], float scale) {
  float scaled[N];
  SHARD8_UNROLL
  for (int k = 0; k < N; ++k) scaled[k] = x[k] * scale;
  codes = round_scaled<Q>(signs, scaled);
  SHARD8_UNROLL
  for (int k = 0; k < N; ++k) signs.see(x[k]);
}

/// Counts how many of N elements, each with its own scale, saturated or were flushed, and corrects the codes of NaN.
/// Works on bits of whole words, four codes at once.
template <class Q, int N, class Scales>
KOKKOS_FORCEINLINE_FUNCTION CastStats count_pack(Words<N>& codes, const float (&x)[N], const Scales& scale) {
  CastStats stats;
  SHARD8_UNROLL
  for (int k4 = 0; k4 < N / 4; ++k4) {
    std::uint32_t not_zero = 0, of_nan = 0, sign = 0;  // of x, in bit 7 of each byte
    SHARD8_UNROLL
    for (int j = 0; j < 4; ++j) {
      const float value = x[4 * k4 + j];
      const auto in = static_cast<std::uint32_t>(magnitude(value));
      const auto above = static_cast<std::uint32_t>(magnitude(value * scale[4 * k4 + j]));
      const std::uint32_t nan = (kInfinityBits - in) >> 31;
      not_zero |= ((in + 0x7fffffffu) & 0x80000000u) >> (24 - 8 * j);
      sign |= (std::bit_cast<std::uint32_t>(value) & 0x80000000u) >> (24 - 8 * j);
      of_nan |= nan << (7 + 8 * j);
      stats.saturated +=
          static_cast<std::int32_t>((std::bit_cast<std::uint32_t>(Q::kRoundsToMax) - above) >> 31 & (nan ^ 1u));
    }
    const std::uint32_t bytes = (of_nan >> 7) * 0xffu;
    const std::uint32_t word = (codes.word[k4] & ~bytes) | ((0x7f7f7f7fu | sign) & bytes);
    const std::uint32_t zero = ~tensor::nonzero_codes(word) & 0x80808080u;
    codes.word[k4] = word;
    stats.flushed += Kokkos::popcount(zero & not_zero);
  }
  return stats;
}

/// codes = cast(x·scale) of N elements; returns their stats.
template <class Q, int N>
KOKKOS_FORCEINLINE_FUNCTION CastStats cast_pack(Words<N>& codes, const float (&x)[N], float scale) {
  CastSigns signs;
  cast_numbers<Q>(codes, signs, x, scale);
  CastStats stats;
  if (signs.rare<Q>(scale)) stats = count_pack<Q>(codes, x, OneScale{scale});
  stats.amax = signs.amax;
  return stats;
}
/// As cast_pack, with a scale for each element. The stats have no amax.
template <class Q, int N, class Scales>
KOKKOS_FORCEINLINE_FUNCTION CastStats cast_pack(Words<N>& codes, const float (&x)[N], const Scales& scales) {
  CastSigns signs;
  float scaled[N];
  SHARD8_UNROLL
  for (int k = 0; k < N; ++k) scaled[k] = x[k] * scales[k];
  codes = round_scaled<Q>(signs, scaled);
  SHARD8_UNROLL
  for (int k = 0; k < N; ++k) signs.see(scaled[k]);
  return signs.rare<Q>(1.0f) ? count_pack<Q>(codes, x, scales) : CastStats{};
}

/// Whether X is lanes of bf16 in packs.
template <class X>
inline constexpr bool kOfBf16 = false;
template <class X>
requires requires(X x) { x.pack[0].word[0]; }
inline constexpr bool kOfBf16<X> = std::is_same_v<decltype(std::declval<X>().raw(0)), tensor::BFloat16>;

/// The larger of the magnitudes of a width's elements and `largest`.
template <class W, class X>
KOKKOS_FORCEINLINE_FUNCTION std::int32_t larger_of_each(const W&, const X& x, std::int32_t largest) {
  SHARD8_UNROLL
  for (int j = 0; j < W::kCount; ++j) {
    const std::int32_t one = magnitude(x[j]);
    largest = one > largest ? one : largest;
  }
  return largest;
}
/// Returns the same as larger_of_each. Packs of bf16 are compared in pairs: fewer instructions, more registers.
template <class W, class X>
KOKKOS_FORCEINLINE_FUNCTION std::int32_t larger_magnitude(const W& w, const X& x, std::int32_t largest) {
  if constexpr (kOfBf16<X>) {
    std::uint32_t pair = largest_pair(x.pack[0]);
    SHARD8_UNROLL
    for (const auto& pack : x.pack) pair = larger_pair(pair, largest_pair(pack));
    const std::int32_t both = magnitude_of(pair);
    // With a NaN the magnitudes are compared one by one.
    if (both <= static_cast<std::int32_t>(kInfinityBits)) return both > largest ? both : largest;
  }
  return larger_of_each(w, x, largest);
}

/// Pack u of a width's elements.
template <int N, class X>
KOKKOS_FORCEINLINE_FUNCTION Values<N> pack_of(const X& x, int u) {
  Values<N> part;
  SHARD8_UNROLL
  for (int k = 0; k < N; ++k) part.at[k] = x[u * N + k];
  return part;
}

/// The code of a NaN in either format.
KOKKOS_FORCEINLINE_FUNCTION std::uint8_t nan_code(float x) {
  return static_cast<std::uint8_t>(0x7fu | (std::bit_cast<std::uint32_t>(x) >> 24 & 0x80u));
}

/// How many of the N bf16 of pack u of a width were flushed: they are not zero, but their codes are.
template <int N, class X>
KOKKOS_FORCEINLINE_FUNCTION std::int32_t count_flushed(const Words<N>& codes, const X& x, int u) {
  std::uint32_t all = ~0u;
  SHARD8_UNROLL
  for (const std::uint32_t word : codes.word) all &= tensor::nonzero_codes(word);
  if ((all & 0x80808080u) == 0x80808080u) return 0;
  std::int32_t flushed = 0;
  SHARD8_UNROLL
  for (int k = 0; k < N / 4; ++k) {
    const auto& words = x.pack[u].word;
    flushed += Kokkos::popcount(tensor::flushed_codes(codes.word[k], words[2 * k], words[2 * k + 1]));
  }
  return flushed;
}

/// Whether some number saturates when cast to Q, or is NaN; `pair` holds the largest magnitudes of all numbers.
template <class Q>
KOKKOS_FORCEINLINE_FUNCTION bool may_saturate(std::uint32_t pair, float scale) {
  return !(std::bit_cast<float>(magnitude_of(pair)) * scale <= Q::kRoundsToMax);
}

/// codes = x·scale of N elements rounded to the format; not for NaN.
template <class Q, int N, class X>
KOKKOS_FORCEINLINE_FUNCTION Words<N> round_numbers(const X& x, int first, float scale) {
  Words<N> codes;
  SHARD8_UNROLL
  for (int k = 0; k < N; k += 4) {
    float scaled[4];
    SHARD8_UNROLL
    for (int j = 0; j < 4; ++j) scaled[j] = x[first + k + j] * scale;
    codes.word[k / 4] = tensor::cast_to_codes<Q>(scaled[0], scaled[1], scaled[2], scaled[3]);
  }
  return codes;
}

/// out[i] = cast(x·scale) of the elements of a width.
template <class Q, class X>
KOKKOS_FORCEINLINE_FUNCTION CastStats cast_lanes(const Single&, Q* out, std::int64_t i, const X& x, float scale) {
  return cast_element(out[i], x[0], scale);
}
template <class Q, int N, int kPacks, class X>
KOKKOS_FORCEINLINE_FUNCTION CastStats cast_lanes(const Packed<N, kPacks>& w, Q* out, std::int64_t i, const X& x,
                                                 float scale) {
  CastStats stats;
  if constexpr (kOfBf16<X>) {
    // Two packs share one test of whether an element may saturate or is NaN.
    constexpr int kAtOnce = kPacks % 2 == 0 ? 2 : 1;
    std::uint32_t pair = 0;
    SHARD8_UNROLL
    for (int first = 0; first < kPacks; first += kAtOnce) {
      std::uint32_t larger = largest_pair(x.pack[first]);
      if constexpr (kAtOnce == 2) larger = larger_pair(larger, largest_pair(x.pack[first + 1]));
      SHARD8_UNROLL
      for (int u = first; u < first + kAtOnce; ++u) {
        const Words<N> codes = round_numbers<Q, N>(x, u * N, scale);
        stats.flushed += count_flushed(codes, x, u);
        store_global(out + i + u * w.stride, codes);
      }
      if (may_saturate<Q>(larger, scale)) {
        SHARD8_UNROLL
        for (int j = first * N; j < (first + kAtOnce) * N; ++j) {
          stats.saturated += Kokkos::abs(x[j] * scale) > Q::kRoundsToMax ? 1 : 0;
          if (x[j] != x[j]) out[i + j / N * w.stride + j % N].bits = nan_code(x[j]);
          const std::int32_t one = magnitude(x[j]);
          stats.amax = one > stats.amax ? one : stats.amax;
        }
      } else {
        pair = larger_pair(pair, larger);
      }
    }
    const std::int32_t amax = magnitude_of(pair);
    stats.amax = amax > stats.amax ? amax : stats.amax;
  } else {
    SHARD8_UNROLL
    for (int u = 0; u < kPacks; ++u) {
      Words<N> codes;
      stats += cast_pack<Q>(codes, pack_of<N>(x, u).at, scale);
      store_global(out + i + u * w.stride, codes);
    }
  }
  return stats;
}

/// max f(i) of a row, returned to the whole team. f returns bits of magnitudes; an empty row gives 0.
template <class F>
KOKKOS_INLINE_FUNCTION std::int32_t row_largest(const HostTeam&, std::int64_t n, const F f) {
  std::int32_t largest = 0;
#pragma omp simd reduction(max : largest)
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int32_t one = f(i);
    largest = one > largest ? one : largest;
  }
  return largest;
}
template <class AnyMember, class F>
KOKKOS_INLINE_FUNCTION std::int32_t row_largest(const AnyMember& team, std::int64_t n, const F& f) {
  std::int32_t largest = 0;
  row_for(team, n, [&](std::int64_t i) {
    const std::int32_t one = f(i);
    largest = one > largest ? one : largest;
  });
  return team_largest(team, largest);
}

/// The largest magnitude of the elements of a row that this thread reads, for CastTotals::add.
template <int N, class X>
KOKKOS_INLINE_FUNCTION std::int32_t row_magnitude(const HostTeam& team, std::int64_t n, bool, const X x) {
  return row_largest(team, n, [=](std::int64_t i) { return magnitude(x.load(Single{}, i)[0]); });
}
template <int N, class AnyMember, class X>
KOKKOS_INLINE_FUNCTION std::int32_t row_magnitude(const AnyMember& team, std::int64_t n, bool fits, const X& x) {
  std::int32_t largest = 0;
  row_packs<N, 4>(team, n, fits, [&](auto w, std::int64_t i) { largest = larger_magnitude(w, x.load(w, i), largest); });
  return largest;
}

/// Throws Error(failed) unless the tensors of a cast with one scale have the counts that kernels/quantize.hpp states.
/// Returns where the cast adds its amax and counts.
inline CastTotals require_per_tensor(const char* kernel, const tensor::Operand& out, const tensor::Tensor& amax,
                                     const tensor::Tensor& x, const tensor::Tensor& scale, const CastOptions& options) {
  SHARD8_REQUIRE(out.scaling == tensor::Scaling::tensor, "{}: scales {}; one of the tensor is needed", kernel,
                 tensor::name_of(out.scaling));
  require_count(kernel, "data", out.data, x.count());
  require_count(kernel, "scale_inv", out.scale_inv, 1);
  require_count(kernel, "scale", scale, 1);
  if (amax.empty()) return {nullptr, options.counts};
  return {amax.as<std::int32_t>(), options.counts};
}

/// The sum of the CastStats f(w, i) of a row over the elements that this thread takes, for CastTotals::add.
template <int N, int kPacks = 2, class F>
KOKKOS_FORCEINLINE_FUNCTION CastStats row_stats(const HostTeam&, std::int64_t n, bool, const F f) {
  std::int32_t amax = 0, saturated = 0, flushed = 0;
#pragma omp simd reduction(max : amax) reduction(+ : saturated, flushed)
  for (std::int64_t i = 0; i < n; ++i) {
    const CastStats one = f(Single{}, i);
    amax = one.amax > amax ? one.amax : amax;
    saturated += one.saturated;
    flushed += one.flushed;
  }
  return {amax, saturated, flushed};
}
template <int N, int kPacks = 2, class AnyMember, class F>
KOKKOS_INLINE_FUNCTION CastStats row_stats(const AnyMember& team, std::int64_t n, bool fits, const F& f) {
  CastStats stats;
  row_packs<N, kPacks>(team, n, fits, [&](auto w, std::int64_t i) { stats += f(w, i); });
  return stats;
}

}  // namespace shard8::kernels
