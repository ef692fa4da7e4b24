// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/kokkos/column_sums.hpp"
#include "kernels/kokkos/loops.hpp"

namespace shard8::kernels {

/// What the backward of a norm reads and writes; mean and dbias of LayerNorm alone.
template <class T>
struct NormBackward {
  T* dx;
  float *dweight, *dbias;  ///< (chunks, hidden), one row a chunk
  const T *dy, *x;
  const float *mean, *rstd;
  const T *weight, *residual;
  std::int64_t hidden;
};

/// The rows of a chunk by a team of a device. A thread has kPacks packs of columns, the same in all
/// rows, and keeps their gradients and those of a row at a time in registers; what the next rows need
/// is on its way meanwhile. With n = (x − mean)·rstd and g = w·dy:
/// dx = rstd·(g − mean(g) − n·mean(g·n)), of RMSNorm without means.
template <class T, bool kCentred, bool kResidual, int kPacks>
struct NormBackwardRows {
  static constexpr int kN = kPack<T>;
  using Wide = Packed<kN, kPacks>;
  using Lanes = typename Wide::template Lanes<T>;
  static constexpr int kAhead = kResidual || kCentred ? 1 : 2;  ///< rows, as registers allow

  NormBackward<T> at;
  RowChunks chunks;

  /// The most threads of a team, and registers for that: two teams of half of them run at once.
  static constexpr int kMost = kPacks == 1 ? 1024 : sizeof(T) == 2 ? 512 : 256;
  using Bounds = Kokkos::LaunchBounds<kMost, 1>;
  /// Threads of a team for this many columns; 0 if there cannot be enough.
  static int threads(std::int64_t hidden) {
    const std::int64_t needed = (hidden + kN * kPacks - 1) / (kN * kPacks), whole = (needed + 31) / 32 * 32;
    return whole <= kMost ? static_cast<int>(whole) : 0;
  }

  struct Row {
    Lanes dy, x, residual;
  };

  template <class AnyMember>
  KOKKOS_INLINE_FUNCTION void operator()(const AnyMember& team, std::int64_t chunk) const {
    const std::int64_t column = static_cast<std::int64_t>(team.team_rank()) * kN,
                       stride = static_cast<std::int64_t>(team.team_size()) * kN;
    const Lanes weight = load(at.weight, column, stride);
    float dw[Wide::kCount] = {}, db[Wide::kCount] = {};
    const std::int64_t last = chunks.last(chunk);
    Row next[kAhead];
    SHARD8_UNROLL
    for (int a = 0; a < kAhead; ++a) {
      if (chunks.first(chunk) + a < last) next[a] = load_row(chunks.first(chunk) + a, column, stride);
    }
    for (std::int64_t row = chunks.first(chunk); row < last; ++row) {
      const Row now = next[0];
      SHARD8_UNROLL
      for (int a = 1; a < kAhead; ++a) next[a - 1] = next[a];
      if (row + kAhead < last) next[kAhead - 1] = load_row(row + kAhead, column, stride);
      Lanes residual = now.residual;
      if constexpr (kResidual && kCentred) residual = load(at.residual + row * at.hidden, column, stride);
      const float m = kCentred ? at.mean[row] : 0.0f, r = at.rstd[row];
      float g_sum = 0, gn_sum = 0;
      SHARD8_UNROLL
      for (int j = 0; j < Wide::kCount; ++j) {
        const float g = weight[j] * now.dy[j];
        if constexpr (kCentred) g_sum += g;
        gn_sum += g * (now.x[j] - m);
      }
      const int slot = static_cast<int>(row % 2);
      const auto count = static_cast<float>(at.hidden);
      float g_mean = 0, gn_mean = 0;
      if constexpr (kCentred) {
        const TwoSums sums = team_sums(team, g_sum, gn_sum, slot);
        g_mean = sums.first / count;
        gn_mean = sums.second * r / count;
      } else {
        gn_mean = team_total(team, gn_sum, Add{}, slot) * r / count;
      }
      Values<Wide::kCount> dx;
      SHARD8_UNROLL
      for (int j = 0; j < Wide::kCount; ++j) {
        const float n = (now.x[j] - m) * r, d = now.dy[j];
        dw[j] += d * n;
        if constexpr (kCentred) db[j] += d;
        const float column_dx = r * (weight[j] * d - g_mean - n * gn_mean);
        dx.at[j] = kResidual ? residual[j] + column_dx : column_dx;
      }
      store(at.dx + row * at.hidden, column, stride, dx.at);
    }
    store(at.dweight + chunk * at.hidden, column, stride, dw);
    if constexpr (kCentred) store(at.dbias + chunk * at.hidden, column, stride, db);
  }

 private:
  KOKKOS_FORCEINLINE_FUNCTION Lanes load(const T* from, std::int64_t column, std::int64_t stride) const {
    Lanes lanes{};
    SHARD8_UNROLL
    for (int u = 0; u < kPacks; ++u) {
      const std::int64_t c = column + u * stride;
      if (c < at.hidden) lanes.pack[u] = load_words<kN* static_cast<int>(sizeof(T))>(from + c);
    }
    return lanes;
  }
  KOKKOS_FORCEINLINE_FUNCTION Row load_row(std::int64_t row, std::int64_t column, std::int64_t stride) const {
    const std::int64_t first = row * at.hidden;
    Row loaded{load(at.dy + first, column, stride), load(at.x + first, column, stride), {}};
    if constexpr (kResidual && !kCentred) loaded.residual = load(at.residual + first, column, stride);
    return loaded;
  }
  template <class Out>
  KOKKOS_FORCEINLINE_FUNCTION void store(Out* to, std::int64_t column, std::int64_t stride,
                                         const float (&values)[Wide::kCount]) const {
    SHARD8_UNROLL
    for (int u = 0; u < kPacks; ++u) {
      const std::int64_t c = column + u * stride;
      if (c >= at.hidden) continue;
      float part[kN];
      SHARD8_UNROLL
      for (int k = 0; k < kN; ++k) part[k] = values[u * kN + k];
      store_words(to + c, round_results<Out, kN>(part));
    }
  }
};

/// Whether a device did it by NormBackwardRows: not on hosts, nor where packs do not fit.
template <bool kCentred, class T>
bool norm_backward_rows(const Exec& exec, const char* label, const NormBackward<T>& at, const RowChunks& chunks) {
  if constexpr (kHostExec) {
    return false;
  } else {
    constexpr int kN = kPack<T>, kPacks = kCentred ? 16 / kN : 1;  // as measured
    using With = NormBackwardRows<T, kCentred, true, kPacks>;
    using Without = NormBackwardRows<T, kCentred, false, kPacks>;
    const int threads = With::threads(at.hidden);
    if (threads == 0 || !packs_fit<kN>(at.hidden, at.dx, at.dy, at.x, at.weight, at.residual)) return false;
    if (at.residual != nullptr) {
      for_rows<typename With::Bounds>(exec, label, chunks.count(), With{at, chunks}, threads);
    } else {
      for_rows<typename Without::Bounds>(exec, label, chunks.count(), Without{at, chunks}, threads);
    }
    return true;
  }
}

}  // namespace shard8::kernels
