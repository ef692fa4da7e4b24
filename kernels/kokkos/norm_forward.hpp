// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/kokkos/emit.hpp"
#include "kernels/kokkos/loops.hpp"
#include "kernels/kokkos/norm_made.hpp"
#if defined(KOKKOS_ENABLE_CUDA)
#include "kernels/cuda/norm.hpp"
#include "tensor/cuda/stream.hpp"
#endif

namespace shard8::kernels {

/// What the forward of a norm reads and writes; mean and bias of LayerNorm alone.
template <class T>
struct NormForward {
  float *mean, *rstd;
  const T *x, *weight, *bias;
  std::int64_t hidden;
  float eps;
};

/// The elements at i of a row of the result, rounded, of what x is there.
template <bool kCentred, class T, class W>
KOKKOS_FORCEINLINE_FUNCTION auto norm_lanes(const NormForward<T>& at, const W& w, std::int64_t i,
                                            const typename W::template Lanes<T>& v, float m, float r) {
  typename W::template Lanes<T> bias{};
  if constexpr (kCentred) bias = w.load(at.bias, i);
  return norm_made<kCentred, T>(w, v, w.load(at.weight, i), bias, m, r);
}

/// Whether a device made a norm, and its transposed cast.
enum class NormMade { no, yes, turned_too };

/// A few rows by a team of a device, whose threads have 16 elements of a row in registers: it is read once, and
/// the next one is on its way meanwhile.
template <class T, class E, bool kCentred>
struct NormForwardRows {
  static constexpr int kN = kPack<T>, kPacks = 16 / kN;
  static constexpr std::int64_t kRows = E::kStats || kCentred ? 8 : 1;  ///< as measured
  using Width = Packed<kN, kPacks>;
  using Lanes = typename Width::template Lanes<T>;

  Emitter<E> y;
  NormForward<T> at;
  std::int64_t rows;

  /// The most threads of a team, and registers for a few teams at once.
  static constexpr int kMost = 512;
  using Bounds = Kokkos::LaunchBounds<kMost, sizeof(T) == 2 ? 2 : 1>;
  /// Threads of a team for this many columns; 0 if they would not have all of them, or not all 16.
  static int threads(std::int64_t hidden) {
    const std::int64_t needed = hidden / (kN * kPacks);
    return hidden % (kN * kPacks * 32) == 0 && needed <= kMost ? static_cast<int>(needed) : 0;
  }

  template <class AnyMember>
  KOKKOS_INLINE_FUNCTION void operator()(const AnyMember& team, std::int64_t index) const {
    const Width w{static_cast<std::int64_t>(team.team_size()) * kN};
    const std::int64_t i = static_cast<std::int64_t>(team.team_rank()) * kN, first = index * kRows;
    Lanes next = w.load(at.x + first * at.hidden, i);
    const Sink<E> out = y.open(team, index);
    CastStats stats;
    if constexpr (kRows == 1) {
      stats = row_of(team, out, next, first, w, i);
    } else {
      const std::int64_t last = first + kRows < rows ? first + kRows : rows;
      for (std::int64_t row = first; row < last; ++row) {
        const Lanes now = next;
        if (row + 1 < last) next = w.load(at.x + (row + 1) * at.hidden, i);
        stats += row_of(team, out, now, row, w, i);
      }
    }
    if constexpr (E::kStats) out.totals.add(team, stats);
  }

 private:
  template <class AnyMember>
  KOKKOS_FORCEINLINE_FUNCTION CastStats row_of(const AnyMember& team, const Sink<E>& out, const Lanes& v,
                                               std::int64_t row, const Width& w, std::int64_t i) const {
    const auto count = static_cast<float>(at.hidden);
    float m = 0;
    if constexpr (kCentred) m = team_total(team, w.sum([&](int j) { return v[j]; }), Add{}, 0) / count;
    const int slot = kCentred || kRows == 1 ? 1 : static_cast<int>(row % 2);
    const float squares = team_total(team, w.sum([&](int j) { return (v[j] - m) * (v[j] - m); }), Add{}, slot);
    const float r = 1.0f / Kokkos::sqrt(squares / count + at.eps);
    if (team.team_rank() == 0) {
      if constexpr (kCentred) at.mean[row] = m;
      at.rstd[row] = r;
    }
    const Sink<E> yr = out.from(row * at.hidden);
    if constexpr (!E::kCast) return yr.put(w, i, norm_lanes<kCentred>(at, w, i, v, m, r));
    CastStats stats;  // a pack at a time, as registers allow
    const Packed<kN, 1> one{0};
    SHARD8_UNROLL
    for (int u = 0; u < kPacks; ++u) {
      const std::int64_t first = i + u * w.stride;
      stats += yr.put(one, first, norm_lanes<kCentred>(at, one, first, {{v.pack[u]}}, m, r));
    }
    return stats;
  }
};

#if defined(KOKKOS_ENABLE_CUDA)
/// Whether kernels/cuda made it, as its has_norm_forward says, of bf16 alone; beside a plain result a cast is
/// not turned.
template <class T, class E>
NormMade norm_forward_by_clusters(const Exec& exec, const char* label, const Emitter<E>& y, const NormForward<T>& at,
                                  std::int64_t rows) {
  if constexpr (!std::is_same_v<T, tensor::BFloat16>) return NormMade::no;
  cuda::NormForward norm{};
  norm.x = at.x;
  norm.weight = at.weight;
  norm.bias = at.bias;
  norm.mean = at.mean;
  norm.rstd = at.rstd;
  norm.rows = rows;
  norm.hidden = at.hidden;
  norm.eps = at.eps;
  norm.plain = y.plain;
  if constexpr (E::kCast) {
    norm.quantized = y.quantized;
    if constexpr (!E::kPlain) norm.transposed = y.transposed;
    norm.format = std::is_same_v<typename E::Format, tensor::E4M3> ? tensor::DType::e4m3 : tensor::DType::e5m2;
    norm.scale = y.scale;
    norm.scale_inv = y.scale_inv;
  }
  if constexpr (E::kStats) {
    norm.amax = y.totals.amax;
    if (auto* const counts = y.totals.counts; counts != nullptr) {
      norm.saturated = reinterpret_cast<unsigned long long*>(&counts->saturated);
      norm.flushed = reinterpret_cast<unsigned long long*>(&counts->flushed);
    }
  }
  if (!cuda::has_norm_forward(norm)) return NormMade::no;
  const bool watched = Kokkos::Tools::profileLibraryLoaded();  // tools see it as a kernel that Kokkos launches
  std::uint64_t number = 0;
  if (watched) Kokkos::Tools::beginParallelFor(label, Kokkos::Tools::Experimental::device_id(exec), &number);
  cuda::norm_forward(tensor::cuda::stream_of(exec), norm);
  if (watched) Kokkos::Tools::endParallelFor(number);
  return norm.transposed != nullptr ? NormMade::turned_too : NormMade::yes;
}
#endif

/// By clusters of blocks where there are any, else by teams: not on hosts, nor where packs do not fit.
template <bool kCentred, class T, class E>
NormMade norm_forward_on_device(const Exec& exec, const char* label, const Emitter<E>& y, const NormForward<T>& at,
                                std::int64_t rows, bool fits) {
  if constexpr (kHostExec) {
    return NormMade::no;
  } else {
#if defined(KOKKOS_ENABLE_CUDA)
    const NormMade made = norm_forward_by_clusters(exec, label, y, at, rows);
    if (made != NormMade::no) return made;
#endif
    using Rows = NormForwardRows<T, E, kCentred>;
    const int threads = Rows::threads(at.hidden);
    if (threads == 0 || !fits) return NormMade::no;
    for_rows<typename Rows::Bounds>(exec, label, (rows + Rows::kRows - 1) / Rows::kRows, Rows{y, at, rows}, threads);
    return NormMade::yes;
  }
}

}  // namespace shard8::kernels
