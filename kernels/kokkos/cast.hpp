// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <bit>
#include <cfloat>
#include <cstdint>
#include <type_traits>

#include "base/error.hpp"
#include "kernels/kokkos/dispatch.hpp"
#include "kernels/kokkos/loops.hpp"
#include "kernels/quantize.hpp"

/// What the kernels that cast to 8 bits are made of. They are compiled without contraction to FMA
/// (SHARD8_EXACT_KERNELS in kernels/CMakeLists.txt), so that they give the same bytes everywhere.
namespace shard8::kernels {

inline constexpr std::uint32_t kInfinityBits = 0x7f800000u;

/// The bits of |x|: as integers they are ordered as the numbers are, NaN above all.
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

/// x[i] as a float.
template <class T>
struct Source {
  const T* x;
  KOKKOS_INLINE_FUNCTION float operator()(std::int64_t i) const { return static_cast<float>(x[i]); }
  KOKKOS_INLINE_FUNCTION Source from(std::int64_t first) const { return {x + first}; }
};
/// bf16(x[i]).
struct SourceThroughBf16 {
  const float* x;
  KOKKOS_INLINE_FUNCTION float operator()(std::int64_t i) const { return static_cast<float>(tensor::BFloat16(x[i])); }
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

/// Calls f(std::type_identity<Q>{}) with Q the format, e4m3 or e5m2.
template <class F>
void dispatch_float8(tensor::DType dtype, const char* kernel, const F& f) {
  switch (dtype) {
    case tensor::DType::e4m3:
      return f(std::type_identity<tensor::E4M3>{});
    case tensor::DType::e5m2:
      return f(std::type_identity<tensor::E5M2>{});
    default:
      break;
  }
  base::fail(base::ExitCode::failed, "{}: dtype {}; allowed are e4m3 and e5m2", kernel, tensor::name_of(dtype));
}

/// What a stretch of elements adds to an amax and to CastCounts. Counts of a stretch fit 32 bits.
struct CastStats {
  std::int32_t amax = 0;
  std::int32_t saturated = 0;
  std::int32_t flushed = 0;

  KOKKOS_INLINE_FUNCTION CastStats& operator+=(const CastStats& other) {
    amax = other.amax > amax ? other.amax : amax;
    saturated += other.saturated;
    flushed += other.flushed;
    return *this;
  }
};

/// out = cast(x·scale), and what it did.
template <class Q>
KOKKOS_INLINE_FUNCTION CastStats cast_element(Q& out, float x, float scale) {
  const float scaled = x * scale;
  out = Q(scaled);
  const std::int32_t above = magnitude(scaled), in = magnitude(x);
  const auto largest = std::bit_cast<std::int32_t>(Q::kRoundsToMax);
  CastStats stats;
  stats.amax = in;
  stats.saturated = static_cast<std::int32_t>((above > largest) & (above <= static_cast<std::int32_t>(kInfinityBits)));
  stats.flushed = static_cast<std::int32_t>((in != 0) & ((out.bits & 0x7fu) == 0));
  return stats;
}

/// Where the stats of a kernel's rows go; null pointers: nowhere. One call a row, inside `once`, on a
/// row or stretch of a few thousand elements, so that atomics cost nothing.
struct CastTotals {
  std::int32_t* amax = nullptr;
  CastCounts* counts = nullptr;

  KOKKOS_INLINE_FUNCTION void add(const CastStats& row) const {
    if (amax != nullptr && row.amax > Kokkos::atomic_load(amax)) Kokkos::atomic_max(amax, row.amax);
    if (counts == nullptr) return;
    if (row.saturated != 0) Kokkos::atomic_add(&counts->saturated, static_cast<std::uint64_t>(row.saturated));
    if (row.flushed != 0) Kokkos::atomic_add(&counts->flushed, static_cast<std::uint64_t>(row.flushed));
  }
};

/// max f(i) of a row, f giving bits of magnitudes, 0 for none; known to the whole team.
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
template <class Member, class F>
KOKKOS_INLINE_FUNCTION std::int32_t row_largest(const Member& team, std::int64_t n, const F& f) {
  std::int32_t largest = 0;
  Kokkos::parallel_reduce(
      Kokkos::TeamVectorRange(team, n),
      [&](std::int64_t i, std::int32_t& part) {
        const std::int32_t one = f(i);
        part = one > part ? one : part;
      },
      Kokkos::Max<std::int32_t>(largest));
  return largest > 0 ? largest : 0;
}

/// Checks the tensors of a cast with one scale.
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

/// Σ f(i) of a row, f giving CastStats, known to the whole team.
template <class F>
KOKKOS_INLINE_FUNCTION CastStats row_stats(const HostTeam&, std::int64_t n, const F f) {
  std::int32_t amax = 0, saturated = 0, flushed = 0;
#pragma omp simd reduction(max : amax) reduction(+ : saturated, flushed)
  for (std::int64_t i = 0; i < n; ++i) {
    const CastStats one = f(i);
    amax = one.amax > amax ? one.amax : amax;
    saturated += one.saturated;
    flushed += one.flushed;
  }
  return {amax, saturated, flushed};
}
template <class Member, class F>
KOKKOS_INLINE_FUNCTION CastStats row_stats(const Member& team, std::int64_t n, const F& f) {
  CastStats stats;
  Kokkos::parallel_reduce(
      Kokkos::TeamVectorRange(team, n), [&](std::int64_t i, CastStats& part) { part += f(i); },
      Kokkos::Sum<CastStats>(stats));
  return stats;
}

/// f(team, first, n) for stretches that cover [0, count) of a flat tensor: one at least, if empty.
template <class F>
void for_stretches(const Exec& exec, const char* label, std::int64_t count, const F& f) {
  constexpr std::int64_t kStretch = 8192;
  for_rows(
      exec, label, count > kStretch ? (count + kStretch - 1) / kStretch : 1,
      KOKKOS_LAMBDA(const Team& team, std::int64_t stretch) {
        const std::int64_t first = stretch * kStretch, rest = count - first;
        f(team, first, rest < kStretch ? rest : kStretch);
      });
}

}  // namespace shard8::kernels

template <>
struct Kokkos::reduction_identity<shard8::kernels::CastStats> {
  KOKKOS_FORCEINLINE_FUNCTION static shard8::kernels::CastStats sum() { return {}; }
};
