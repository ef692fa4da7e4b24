// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "comm/peer/handshake.hpp"
#include "comm/sum_order.hpp"
#include "tensor/dtype.hpp"

namespace shard8::comm::peer {

/// Addresses of the parts of a sum, each with the count and the dtype of the sum.
struct Parts {
  const std::byte* data[kMostRanks + 1] = {};  ///< of all ranks, and of an addend
  int count = 0;                               ///< parts, at least 1
  SumOrder order = SumOrder::ranks;
  bool has_addend = false;  ///< the last part is an addend

  void add(const std::byte* part) { data[count++] = part; }
  /// Adds the addend, after the parts of all ranks.
  void add_addend(const std::byte* addend) {
    add(addend);
    has_addend = true;
  }
};

/// out (count) = the sum of the parts in `parts.order`, in fp32, rounded once. The dtype is fp32 or bf16. out may be
/// one of the parts.
void sum_parts(cudaStream_t stream, void* out, tensor::DType dtype, std::int64_t count, const Parts& parts);

#if defined(__CUDACC__)

/// 16 bytes of T.
template <class T>
struct Vector {
  static constexpr int kN = 16 / static_cast<int>(sizeof(T));
  T at[kN];
};

template <class T>
__device__ __forceinline__ Vector<T> load_vector(const std::byte* from, std::int64_t i) {
  const uint4 raw = __ldcs(reinterpret_cast<const uint4*>(from) + i);  // read once: not for the caches
  Vector<T> v;
  memcpy(&v, &raw, sizeof(v));
  return v;
}

/// Loads kVectors vectors, first, first + step, ..., of each part, as far as they are below `vectors`. Begins with part
/// kFirst.
template <class T, int kFirst, int kParts, int kVectors>
__device__ __forceinline__ void load_parts(Vector<T> (&v)[kParts][kVectors], const Parts& parts, std::int64_t first,
                                           int step, std::int64_t vectors) {
#pragma unroll
  for (int k = 0; k < kParts; ++k) {
    const int r = (k + kFirst) % kParts;
#pragma unroll
    for (int u = 0; u < kVectors; ++u)
      if (first + u * step < vectors) v[r][u] = load_vector<T>(parts.data[r], first + u * step);
  }
}
/// As load_parts, with `start` as kFirst. `start` must be the same for all threads of a block.
template <class T, int kParts, int kVectors, int kFirst = 0>
__device__ __forceinline__ void load_parts_from(int start, Vector<T> (&v)[kParts][kVectors], const Parts& parts,
                                                std::int64_t first, int step, std::int64_t vectors) {
  if constexpr (kFirst < kParts) {
    if (start == kFirst) return load_parts<T, kFirst>(v, parts, first, step, vectors);
    load_parts_from<T, kParts, kVectors, kFirst + 1>(start, v, parts, first, step, vectors);
  }
}

/// The sum of x[0] … x[kParts − 1], in the order SumOrder::tree. Overwrites x.
template <int kParts>
__device__ __forceinline__ float tree_sum(float (&x)[kParts]) {
#pragma unroll
  for (int distance = 1; distance < kParts; distance *= 2) {
#pragma unroll
    for (int r = 0; r + distance < kParts; r += 2 * distance) x[r] += x[r + distance];
  }
  return x[0];
}

/// Sums vectors of kN elements, which are added one by one, in the order SumOrder::tree. If bit l of the number of
/// vectors that were added is 1, partial_[l] holds the sum of 2^l of them.
template <int kN>
class TreeCounter {
 public:
  /// Adds the vector of part number `r`. Overwrites x.
  __device__ __forceinline__ void add(int r, float (&x)[kN]) {
    bool carried = true;
#pragma unroll
    for (int l = 0; l < kDigits; ++l) {
      if (!carried) continue;
      const bool full = (r >> l & 1) != 0;
#pragma unroll
      for (int j = 0; j < kN; ++j) {
        if (full)
          x[j] = partial_[l][j] + x[j];
        else
          partial_[l][j] = x[j];
      }
      carried = full;
    }
  }
  /// The sum of `parts` vectors.
  __device__ __forceinline__ void total(int parts, float (&sum)[kN]) const {
    bool begun = false;
#pragma unroll
    for (int l = 0; l < kDigits; ++l) {
      if ((parts >> l & 1) == 0) continue;
#pragma unroll
      for (int j = 0; j < kN; ++j) sum[j] = begun ? partial_[l][j] + sum[j] : partial_[l][j];
      begun = true;
    }
  }

 private:
  static constexpr int kDigits = 5;
  static_assert(kMostRanks < 1 << kDigits);
  float partial_[kDigits][kN] = {};
};

/// sum = the sum of the parts' vectors number `i`, in the order SumOrder::tree. load(part, i) loads a vector.
template <class T, int kN, class Load>
__device__ __forceinline__ void count_up(float (&sum)[kN], const Parts& parts, std::int64_t i, const Load& load) {
  const int ranks = parts.count - (parts.has_addend ? 1 : 0);
  TreeCounter<kN> counter;
  float x[kN];
  for (int r = 0; r < ranks; ++r) {
    load(parts.data[r], i, x);
    counter.add(r, x);
  }
  counter.total(ranks, sum);
  if (!parts.has_addend) return;
  load(parts.data[ranks], i, x);
#pragma unroll
  for (int j = 0; j < kN; ++j) sum[j] += x[j];
}

/// Writes the sums of kVectors vectors, first, first + step, ..., as far as they are below `vectors`. Parts are added
/// in kOrder; with a tree of kParts > 0 parts none is an addend. With kParts > 0 there are kParts parts, and part
/// `start` is loaded first; with 0 there are parts.count.
template <class T, int kParts, int kVectors, SumOrder kOrder = SumOrder::ranks>
__device__ __forceinline__ void sum_vectors(T* out, const Parts& parts, int start, std::int64_t first, int step,
                                            std::int64_t vectors) {
  float sum[kVectors][Vector<T>::kN] = {};
  const auto add = [&](int r, int u, const Vector<T>& v) {
#pragma unroll
    for (int j = 0; j < Vector<T>::kN; ++j) {
      const auto x = static_cast<float>(v.at[j]);
      sum[u][j] = r == 0 ? x : sum[u][j] + x;
    }
  };
  if constexpr (kParts > 0) {
    Vector<T> v[kParts][kVectors];
    load_parts_from<T>(start, v, parts, first, step, vectors);
    if constexpr (kOrder == SumOrder::tree) {
#pragma unroll
      for (int u = 0; u < kVectors; ++u) {
#pragma unroll
        for (int j = 0; j < Vector<T>::kN; ++j) {
          float x[kParts];
#pragma unroll
          for (int r = 0; r < kParts; ++r) x[r] = static_cast<float>(v[r][u].at[j]);
          sum[u][j] = tree_sum(x);
        }
      }
    } else {
#pragma unroll
      for (int r = 0; r < kParts; ++r) {
#pragma unroll
        for (int u = 0; u < kVectors; ++u) add(r, u, v[r][u]);
      }
    }
  } else if constexpr (kOrder == SumOrder::tree) {
    constexpr int kN = Vector<T>::kN;
    const auto load = [](const std::byte* from, std::int64_t i, float(&x)[kN]) {
      const Vector<T> v = load_vector<T>(from, i);
#pragma unroll
      for (int j = 0; j < kN; ++j) x[j] = static_cast<float>(v.at[j]);
    };
#pragma unroll
    for (int u = 0; u < kVectors; ++u)
      if (first + u * step < vectors) count_up<T>(sum[u], parts, first + u * step, load);
  } else {
    for (int r = 0; r < parts.count; ++r) {
#pragma unroll
      for (int u = 0; u < kVectors; ++u)
        if (first + u * step < vectors) add(r, u, load_vector<T>(parts.data[r], first + u * step));
    }
  }
#pragma unroll
  for (int u = 0; u < kVectors; ++u) {
    const std::int64_t i = first + u * step;
    if (i >= vectors) continue;
    Vector<T> v;
#pragma unroll
    for (int j = 0; j < Vector<T>::kN; ++j) v.at[j] = static_cast<T>(sum[u][j]);
    uint4 raw;
    memcpy(&raw, &v, sizeof(v));
    reinterpret_cast<uint4*>(out)[i] = raw;
  }
}

template <class T, SumOrder kOrder = SumOrder::ranks>
__device__ __forceinline__ void sum_element(T* out, const Parts& parts, std::int64_t i) {
  if constexpr (kOrder == SumOrder::tree) {
    float total[1];
    count_up<T>(total, parts, i, [](const std::byte* from, std::int64_t at, float(&x)[1]) {
      x[0] = static_cast<float>(reinterpret_cast<const T*>(from)[at]);
    });
    out[i] = static_cast<T>(total[0]);
    return;
  }
  float total = static_cast<float>(reinterpret_cast<const T*>(parts.data[0])[i]);
  for (int r = 1; r < parts.count; ++r) total += static_cast<float>(reinterpret_cast<const T*>(parts.data[r])[i]);
  out[i] = static_cast<T>(total);
}

/// Returns of(std::integral_constant<int, count>()) if `count` is one of kOwn, the counts that have a kernel of their
/// own, else of(0).
template <int... kOwn, class F>
auto for_count(int count, const F& of) {
  auto chosen = of(std::integral_constant<int, 0>());
  (static_cast<void>(count == kOwn && (chosen = of(std::integral_constant<int, kOwn>()), true)), ...);
  return chosen;
}
template <class F>
auto for_part_count(int parts, const F& of) {
  return for_count<2, 3, 4, 5, 8>(parts, of);
}

/// The number of whole vectors in `count` elements, or 0 if out or a part does not begin at a multiple of 16 bytes.
template <class T>
std::int64_t whole_vectors(const T* out, const Parts& parts, std::int64_t count) {
  auto all = reinterpret_cast<std::uintptr_t>(out);
  for (int r = 0; r < parts.count; ++r) all |= reinterpret_cast<std::uintptr_t>(parts.data[r]);
  return all % 16 == 0 ? count / Vector<T>::kN : 0;
}

#endif

/// Kernels in which ranks exchange data in each other's memory. The kernels wait for each other on at most `blocks`
/// multiprocessors, so that other kernels, for which another rank may wait, have multiprocessors, too.
struct ExchangeKernels {
  cudaStream_t stream;
  int blocks;

  /// Addresses to which the same bytes are copied.
  struct Destinations {
    std::byte* data[kMostRanks] = {};
    int count = 0;

    void add(std::byte* copy) { data[count++] = copy; }
  };
  void copy(const Handshake& handshake, Turn turn, const std::byte* from, std::size_t bytes,
            const Destinations& to) const;
  /// Copies `rows` rows of `width` bytes, which lie one behind the other in `from`, to rows that begin `pitch` bytes
  /// apart. One kernel is the whole exchange.
  void copy_rows(const Handshake& handshake, const std::byte* from, std::size_t rows, std::size_t width,
                 std::size_t pitch, const Destinations& to) const;

  /// Tells the other ranks that this rank's stream has come to `word`, and waits until they have told this rank so.
  /// What their streams did before is then visible to what this stream is given next. One thread block waits. With
  /// Meeting::done_alone no kernel has told them Handshake::ready; this one tells them both words.
  enum class Meeting { ready, done, done_alone };
  void meet(const Handshake& handshake, Meeting meeting) const;

  /// See sum_parts().
  void sum(const Handshake& handshake, Turn turn, void* out, tensor::DType dtype, std::int64_t count,
           const Parts& parts) const;
};

}  // namespace shard8::comm::peer
