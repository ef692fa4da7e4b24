// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cfloat>
#include <type_traits>

#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/row_parts.cuh"

/// The parts of norm_kernel. A cluster of blocks takes 32 rows at once. A block takes some of their columns, a warp
/// four of the rows. So a whole row is in registers, spread over several multiprocessors, and a block has enough rows
/// to write them transposed. Warps that share rows send each other their sums; no other threads wait.
namespace shard8::kernels::cuda {

using tensor::larger_pair;

/// larger_pair of four pairs, computed as a tree.
__device__ __forceinline__ std::uint32_t largest_pair(const std::uint32_t (&pairs)[4]) {
  return larger_pair(larger_pair(pairs[0], pairs[1]), larger_pair(pairs[2], pairs[3]));
}
/// Two pairs times `scale`, cast to Q.
template <class Q>
__device__ __forceinline__ std::uint32_t cast_pairs(std::uint32_t first, std::uint32_t second, float scale) {
  return tensor::cast_to_codes<Q>(low_of(first) * scale, high_of(first) * scale, low_of(second) * scale,
                                  high_of(second) * scale);
}

/// How many of eight bf16 were flushed: they are not zero, but their codes are.
__device__ __forceinline__ std::uint32_t count_flushed(const std::uint32_t (&codes)[2],
                                                       const std::uint32_t (&pairs)[4]) {
  std::uint32_t flushed = 0;
#pragma unroll
  for (int h = 0; h < 2; ++h) flushed += __popc(tensor::flushed_codes(codes[h], pairs[2 * h], pairs[2 * h + 1]));
  return flushed;
}

inline constexpr int kNormWarps = 8, kNormThreads = 32 * kNormWarps;
inline constexpr int kNormRowsOfWarp = 4, kNormRows = kNormWarps * kNormRowsOfWarp;  ///< kNormRows: of a cluster
inline constexpr int kNormMostBlocks = 8;  ///< blocks of a cluster: as many as every device with clusters allows
inline constexpr int kNormVector = 8,
                     kNormStride =
                         32 * kNormVector;  ///< elements of a thread's vector of 16 bytes, and of a warp's vectors

struct NormCounts {
  std::uint32_t amax = 0, saturated = 0, flushed = 0;
};

/// The forms that the kernel writes. `plain`: the result; without it and without a cast, only its amax. Q: the result
/// cast to this format, E4M3 or E5M2 (void: no cast). `transposed`: the transposed cast as well. `blocks`: each 1×128
/// block is cast with the scale of its own amax.
template <class Q, bool plain, bool transposed, bool blocks = false>
struct NormOutputs {
  using Format = Q;
  static constexpr bool kCast = !std::is_void_v<Q>, kPlain = plain, kTransposed = transposed, kBlocks = blocks;
};

/// The largest of four rows' magnitudes among 16 neighbouring threads: thread t gets that of row t % 4.
__device__ __forceinline__ std::int32_t largest_of_own_row(const std::int32_t (&rows)[4], int lane) {
  const auto larger_with = [](std::int32_t keep, std::int32_t give, int step) {
    return max(keep, __shfl_xor_sync(0xffffffffu, give, step));
  };
  const bool upper = (lane & 2) != 0, odd = (lane & 1) != 0;
  const std::int32_t first = larger_with(upper ? rows[2] : rows[0], upper ? rows[0] : rows[2], 2);
  const std::int32_t second = larger_with(upper ? rows[3] : rows[1], upper ? rows[1] : rows[3], 2);
  std::int32_t largest = larger_with(odd ? second : first, odd ? first : second, 1);
  largest = larger_with(largest, largest, 4);
  return larger_with(largest, largest, 8);
}

/// The scale of a block, from the bits of its amax, as kernels/quantize.hpp states it for 1×128 blocks. (A quotient is
/// never subnormal.)
template <class Q>
__device__ __forceinline__ float scale_of_block(std::int32_t amax, bool power_of_2) {
  const float largest = __int_as_float(amax);
  const float quotient = fminf(__fdiv_rn(Q::kMax, largest), FLT_MAX);
  const float scale = power_of_2 ? __int_as_float(__float_as_int(quotient) & 0x7f800000) : quotient;
  return largest > 0 && largest <= FLT_MAX ? scale : 1.0f;
}

/// kSum: the rows are sums of partial sums, which the kernel writes, too.
template <class Outputs, bool kCentred, int kVectors, bool kSum>
struct NormRows {
  using Q = typename Outputs::Format;
  static constexpr bool kCast = Outputs::kCast, kTransposed = Outputs::kTransposed;
  using Part = std::conditional_t<kCentred, Moments, Squares>;
  static constexpr int kCols = kVectors * kNormStride;  ///< of a block
  static constexpr int kQuads = kNormRows / 4;          ///< how many words a column of the tile has
  static constexpr int kTiles = kVectors == 2 ? 2 : 1;  ///< as many tiles as fit with two blocks on a multiprocessor
  static_assert(kQuads == 8 && kNormRowsOfWarp == 4, "word and of_own_row");

  struct Shared {
    uint4 weight[kVectors][32];
    uint4 bias[kCentred ? kVectors : 1][32];
    Part part[2][kNormRows][kNormMostBlocks];  ///< for two groups of rows, which take turns
    Arrivals arrivals[2][kNormWarps];          ///< of a warp's parts
    std::uint32_t of_warp[3][kNormWarps];
    std::uint32_t tile[kTiles][kTransposed ? kCols * kQuads : 1];
  };
  /// The next rows of each thread, of one partial sum.
  using Next = uint4[kNormRowsOfWarp][kVectors][kNormThreads];
  /// Partial sums whose next rows fit in 227 KiB, a block's shared memory of compute capability 9.0. Others are not
  /// prefetched.
  static constexpr int kMostPrefetched = static_cast<int>((227 * 1024 - sizeof(Shared)) / sizeof(Next));
  __host__ __device__ static int prefetched(const NormForward& norm) {
    return norm.partial_sum_count < kMostPrefetched ? norm.partial_sum_count : kMostPrefetched;
  }
  /// Bytes of shared memory: Shared, and behind it Next of each partial sum.
  static std::size_t shared_bytes(const NormForward& norm) {
    return sizeof(Shared) + sizeof(Next) * static_cast<std::size_t>(kSum ? prefetched(norm) : 1);
  }
  /// A thread's elements of its warp's rows.
  using Rows = uint4[kNormRowsOfWarp][kVectors];
  struct Row {
    float mean, rstd;
  };

  const NormForward& at;
  Shared& shared;
  Next* next;
  int lane, warp, rank, blocks;
  std::int64_t col0;  ///< of the block
  float of_one;       ///< 1 / hidden

  /// Offset of this thread's first element in the first row of its warp.
  __device__ __forceinline__ std::int64_t offset(std::int64_t first_row) const {
    return (first_row + warp * kNormRowsOfWarp) * at.hidden + col0 + lane * kNormVector;
  }
  __device__ __forceinline__ const uint4* vectors(const void* of, std::int64_t first_row) const {
    return reinterpret_cast<const uint4*>(static_cast<const std::uint16_t*>(of) + offset(first_row));
  }
  /// Vectors from one row to the next.
  __device__ __forceinline__ std::int64_t stride() const { return at.hidden / kNormVector; }

  /// Loads weight and bias. A barrier of the block must follow before the first write().
  __device__ __forceinline__ void load_weight() const {
    if (warp >= kVectors) return;
    const auto own = [&](const void* of) {
      return __ldg(reinterpret_cast<const uint4*>(static_cast<const std::uint16_t*>(of) + col0) + warp * 32 + lane);
    };
    shared.weight[warp][lane] = own(at.weight);
    if constexpr (kCentred) shared.bias[warp][lane] = own(at.bias);
  }
  /// Starts loading the warp's rows into shared memory, for load_prefetched.
  __device__ __forceinline__ void prefetch(std::int64_t first_row) const {
    if constexpr (kSum) {
      for (int k = 0; k < prefetched(at); ++k) prefetch(next[k], vectors(at.partial_sums[k], first_row));
    } else {
      prefetch(next[0], vectors(at.x, first_row));
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  }
  /// The prefetched rows, or their sums, which the function also writes.
  __device__ __forceinline__ void load_prefetched(Rows& rows, [[maybe_unused]] std::int64_t first_row) const {
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    [[maybe_unused]] auto* to = reinterpret_cast<uint4*>(static_cast<std::uint16_t*>(at.x) + offset(first_row));
#pragma unroll
    for (int r = 0; r < kNormRowsOfWarp; ++r) {
#pragma unroll
      for (int p = 0; p < kVectors; ++p) {
        if constexpr (kSum)
          to[r * stride() + p * 32] = rows[r][p] = sum(r, p, first_row);
        else
          rows[r][p] = next[0][r][p][threadIdx.x];
      }
    }
  }

  /// Sends the sums of the warp's parts of its rows to all blocks: thread 8·r + b sends the part of row r to block b.
  /// Two places are used in turn. A block that sends has received the parts of the rows before. So all blocks have read
  /// the parts of the rows before those, whose place is overwritten.
  __device__ __forceinline__ void send_parts(const Rows& rows, int which) const {
    Part parts[kNormRowsOfWarp];
#pragma unroll
    for (int r = 0; r < kNormRowsOfWarp; ++r) parts[r] = Part::of(rows[r]);
    const Part own = of_own_row<kNormVector * kVectors>(parts, lane);
    Part* const to = &shared.part[which][warp * kNormRowsOfWarp + lane / 8][rank];
    if (blocks == 1) {  // the cluster has one block
      if (lane % 8 == 0) *to = own;
      return __syncwarp();
    }
    Arrivals* const arrivals = &shared.arrivals[which][warp];
    if (lane == 0) arrivals->expect(static_cast<unsigned>(blocks * kNormRowsOfWarp * sizeof(Part)));
    if (lane % 8 < blocks) send(to, own, arrivals, lane % 8);
  }
  /// Waits for the parts of all blocks, and returns the statistics of row lane / 8. The first block writes them to
  /// memory.
  __device__ __forceinline__ Row statistics(std::int64_t first_row, int which, unsigned parity) const {
    if (blocks > 1) shared.arrivals[which][warp].wait(parity);
    const bool is = lane % 8 < blocks;
    const Part part = is ? shared.part[which][warp * kNormRowsOfWarp + lane / 8][lane % 8] : Part{};
    float squares = part.squares;
    [[maybe_unused]] float mean = 0;
    if constexpr (kCentred) {
      mean = sum_of_eight(part.sum) * of_one;
      const float apart = part.sum * (1.0f / kCols) - mean;
      if (is) squares += kCols * (apart * apart);
    }
    const float rstd = __frsqrt_rn(sum_of_eight(squares) * of_one + at.eps);
    if (rank == 0 && lane % 8 == 0) {
      const std::int64_t to = first_row + warp * kNormRowsOfWarp + lane / 8;
      if constexpr (kCentred) at.mean[to] = mean;
      at.rstd[to] = rstd;
    }
    return {mean, rstd};
  }
  /// The statistics of row r, which thread 8·r has.
  __device__ __forceinline__ static Row of_row(const Row& row, int r) {
    Row one{0, __shfl_sync(0xffffffffu, row.rstd, 8 * r)};
    if constexpr (kCentred) one.mean = __shfl_sync(0xffffffffu, row.mean, 8 * r);
    return one;
  }

  /// Computes eight elements of the result, by the formulas of kernels/kokkos/norm_values.hpp.
  __device__ __forceinline__ static void compute(std::uint32_t (&values)[4], const uint4& x, const uint4& weight,
                                                 const uint4& bias, const Row& row) {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const float a = low_of(word_of(x, k)), b = high_of(word_of(x, k));
      const std::uint32_t w = word_of(weight, k);
      if constexpr (kCentred) {
        const std::uint32_t c = word_of(bias, k);
        values[k] = tensor::round_pair(fmaf((a - row.mean) * row.rstd, low_of(w), low_of(c)),
                                       fmaf((b - row.mean) * row.rstd, high_of(w), high_of(c)));
      } else {
        values[k] = tensor::multiply_pairs(w, tensor::round_pair(a * row.rstd, b * row.rstd));
      }
    }
  }
  /// Writes the rows. Puts codes for the transposed cast into the tile, for write_transposed.
  __device__ __forceinline__ void write(const Rows& rows, const Row& row, std::int64_t first_row,
                                        [[maybe_unused]] std::uint32_t* tile, [[maybe_unused]] float scale,
                                        NormCounts& counts) const {
    std::uint32_t pair = 0;
    Row of[kNormRowsOfWarp];
#pragma unroll
    for (int r = 0; r < kNormRowsOfWarp; ++r) of[r] = of_row(row, r);
    [[maybe_unused]] auto* const plain =
        reinterpret_cast<uint4*>(static_cast<std::uint16_t*>(at.plain) + offset(first_row));
    [[maybe_unused]] auto* const quantized =
        reinterpret_cast<uint2*>(static_cast<std::uint8_t*>(at.quantized) + offset(first_row));
#pragma unroll
    for (int p = 0; p < kVectors; ++p) {
      // Keeps the compiler from loading weights earlier, which would take registers.
      if constexpr (kVectors > 2) asm volatile("" ::: "memory");
      const uint4 weight = shared.weight[p][lane];
      uint4 bias{};
      if constexpr (kCentred) bias = shared.bias[p][lane];
      [[maybe_unused]] std::uint32_t codes[kNormRowsOfWarp][2];
      std::uint32_t values[kNormRowsOfWarp][4], not_zeros = ~0u;
      [[maybe_unused]] const auto cast_row = [&](int r, auto factor) {
#pragma unroll
        for (int h = 0; h < 2; ++h) codes[r][h] = cast_pairs<Q>(values[r][2 * h], values[r][2 * h + 1], factor);
        quantized[r * stride() + p * 32] = {codes[r][0], codes[r][1]};
        not_zeros &= tensor::nonzero_codes(codes[r][0]) & tensor::nonzero_codes(codes[r][1]);
      };
#pragma unroll
      for (int r = 0; r < kNormRowsOfWarp; ++r) {
        compute(values[r], rows[r][p], weight, bias, of[r]);
        if constexpr (!Outputs::kBlocks) pair = larger_pair(pair, largest_pair(values[r]));
        if constexpr (Outputs::kPlain)
          plain[r * stride() + p * 32] = {values[r][0], values[r][1], values[r][2], values[r][3]};
        if constexpr (kCast && !Outputs::kBlocks) cast_row(r, scale);
      }
      if constexpr (Outputs::kBlocks) {
        const float own = scale_blocks(values, p, first_row, counts);  // of row lane % 4
#pragma unroll
        for (int r = 0; r < kNormRowsOfWarp; ++r) cast_row(r, __shfl_sync(0xffffffffu, own, r, 16));
      }
      if constexpr (kCast) {
        // One branch for all rows, because one for each row takes more time.
        if ((not_zeros & 0x80808080u) != 0x80808080u) {
#pragma unroll
          for (int r = 0; r < kNormRowsOfWarp; ++r) counts.flushed += count_flushed(codes[r], values[r]);
        }
      }
      if constexpr (kTransposed) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          std::uint32_t square[4] = {codes[0][h], codes[1][h], codes[2][h], codes[3][h]};
          tensor::transpose_4x4(square);
          put_square(tile, p, h, square);
        }
      }
    }
    if constexpr (Outputs::kBlocks) return;
    const auto amax = static_cast<std::uint32_t>(tensor::magnitude_of(pair));
    counts.amax = max(counts.amax, amax);
    if constexpr (kCast) {
      const bool fits = __uint_as_float(amax) * scale <= Q::kRoundsToMax;
      if (__any_sync(0xffffffffu, !fits)) count_saturated(row, first_row, scale, counts);
    }
  }
  /// Writes the inverse scales of the warp's blocks in column vector p, and returns the scale of the thread's block in
  /// row lane % 4. Counts what saturates: only in blocks that are not finite, whose scale is 1.
  __device__ __forceinline__ float scale_blocks(const std::uint32_t (&values)[kNormRowsOfWarp][4], int p,
                                                std::int64_t first_row, NormCounts& counts) const {
    std::int32_t amax[kNormRowsOfWarp];
#pragma unroll
    for (int r = 0; r < kNormRowsOfWarp; ++r)
      amax[r] = static_cast<std::int32_t>(tensor::magnitude_of(largest_pair(values[r])));
    const std::int32_t largest = largest_of_own_row(amax, lane);
    const float scale = scale_of_block<Q>(largest, at.power_of_2);
    if (lane % 16 < kNormRowsOfWarp) {
      const std::int64_t row = first_row + warp * kNormRowsOfWarp + lane % 4;
      at.scale_inv[row * (at.hidden / 128) + (col0 + p * kNormStride) / 128 + lane / 16] = 1.0f / scale;
    }
    if (__any_sync(0xffffffffu, largest >= 0x7f800000)) {
#pragma unroll
      for (int r = 0; r < kNormRowsOfWarp; ++r) {
        const float factor = __shfl_sync(0xffffffffu, scale, r, 16);
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          counts.saturated += fabsf(low_of(values[r][k]) * factor) > Q::kRoundsToMax ? 1 : 0;
          counts.saturated += fabsf(high_of(values[r][k]) * factor) > Q::kRoundsToMax ? 1 : 0;
        }
      }
    }
    return scale;
  }
  /// Counts what saturates. Saturation is rare, so rows are read and computed a second time here; write() then needs no
  /// registers for it.
  __device__ __forceinline__ void count_saturated(const Row& row, std::int64_t first_row, float scale,
                                                  NormCounts& counts) const {
    const uint4* from = vectors(at.x, first_row);
#pragma unroll 1
    for (int r = 0; r < kNormRowsOfWarp; ++r, from += stride()) {
      const Row of = of_row(row, r);
#pragma unroll 1
      for (int p = 0; p < kVectors; ++p) {
        uint4 bias{};
        if constexpr (kCentred) bias = shared.bias[p][lane];
        std::uint32_t values[4];
        compute(values, from[p * 32], shared.weight[p][lane], bias, of);
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          counts.saturated += fabsf(low_of(values[k]) * scale) > Q::kRoundsToMax ? 1 : 0;
          counts.saturated += fabsf(high_of(values[k]) * scale) > Q::kRoundsToMax ? 1 : 0;
        }
      }
    }
  }

  /// The place of a word in the tile: the word of four rows of a column. Columns and words are permuted, so that
  /// neither threads that write columns eight apart nor threads that read vectors of neighbouring columns use the same
  /// bank. The places of a thread's words differ from its first place by xor.
  __device__ __forceinline__ static constexpr int word(int column, int quad) {
    const int place = (column & ~3) | ((column ^ column >> 6) & 3);
    return place * kQuads + (quad ^ ((column >> 3 ^ (column >> 2 & 1) << 1) & (kQuads - 1)));
  }
  __device__ __forceinline__ void put_square(std::uint32_t* tile, int p, int h,
                                             const std::uint32_t (&square)[4]) const {
    const int first = word(lane * kNormVector, warp);
#pragma unroll
    for (int k = 0; k < 4; ++k) tile[(first ^ word(4 * h + k, 0)) + p * kNormStride * kQuads] = square[k];
  }
  __device__ __forceinline__ void write_transposed(const std::uint32_t* tile, std::int64_t first_row) const {
    constexpr int kOfColumn = kNormRows / 16, kStep = kNormThreads / kOfColumn;  // vectors; columns
    const auto thread = static_cast<int>(threadIdx.x);
    const int column = thread / kOfColumn, part = thread % kOfColumn, first = word(column, 4 * part);
    auto* to = static_cast<std::uint8_t*>(at.transposed) + (col0 + column) * at.rows + first_row + 16 * part;
#pragma unroll
    for (int i = 0; i < kCols / kStep; ++i, to += kStep * at.rows) {
      const auto of = [&](int k) { return tile[(first ^ (i % 2 * 2 * kQuads + k)) + i * kStep * kQuads]; };
      *reinterpret_cast<uint4*>(to) = {of(0), of(1), of(2), of(3)};
    }
  }

  /// Adds the block's counts to the amax and counts in memory.
  __device__ __forceinline__ void add_counts(const NormCounts& counts, std::int32_t before) const {
    const std::uint32_t amax = __reduce_max_sync(0xffffffffu, counts.amax);
    const std::uint32_t saturated = __reduce_add_sync(0xffffffffu, counts.saturated);
    const std::uint32_t flushed = __reduce_add_sync(0xffffffffu, counts.flushed);
    if (lane < 3) shared.of_warp[lane][warp] = lane == 0 ? amax : lane == 1 ? saturated : flushed;
    __syncthreads();
    if (warp != 0) return;
    const auto part = [&](int i) { return lane < kNormWarps ? shared.of_warp[i][lane] : 0u; };
    const auto largest = static_cast<std::int32_t>(__reduce_max_sync(0xffffffffu, part(0)));
    const unsigned long long all_saturated = __reduce_add_sync(0xffffffffu, part(1));
    const unsigned long long all_flushed = __reduce_add_sync(0xffffffffu, part(2));
    if (lane != 0) return;
    if (at.amax != nullptr && largest > before) atomicMax(at.amax, largest);
    if (at.saturated != nullptr && all_saturated != 0) atomicAdd(at.saturated, all_saturated);
    if (at.flushed != nullptr && all_flushed != 0) atomicAdd(at.flushed, all_flushed);
  }

 private:
  __device__ __forceinline__ void prefetch(Next& to, const uint4* from) const {
#pragma unroll
    for (int r = 0; r < kNormRowsOfWarp; ++r, from += stride()) {
#pragma unroll
      for (int p = 0; p < kVectors; ++p) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(&to[r][p][threadIdx.x])),
                     "l"(from + p * 32)
                     : "memory");
      }
    }
  }
  /// The sum of eight elements of each partial sum, in their order, rounded once.
  __device__ __forceinline__ uint4 sum(int r, int p, std::int64_t first_row) const {
    float even[4], odd[4];
    const int ahead = prefetched(at);
    const auto add = [&](int k, bool first) {
      const uint4 v = k < ahead ? next[k][r][p][threadIdx.x]
                                : __ldcs(vectors(at.partial_sums[k], first_row) + r * stride() + p * 32);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float a = low_of(word_of(v, j)), b = high_of(word_of(v, j));
        even[j] = first ? a : even[j] + a;
        odd[j] = first ? b : odd[j] + b;
      }
    };
    add(0, true);
    for (int k = 1; k < at.partial_sum_count; ++k) add(k, false);
    return {tensor::round_pair(even[0], odd[0]), tensor::round_pair(even[1], odd[1]),
            tensor::round_pair(even[2], odd[2]), tensor::round_pair(even[3], odd[3])};
  }
};

}  // namespace shard8::kernels::cuda
