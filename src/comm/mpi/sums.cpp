// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi/all_reduce.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <type_traits>

#include "base/error.hpp"
#include "tensor/float8.hpp"

namespace shard8::comm {
namespace {

// Elements accumulated at a time: stays in the first-level cache.
constexpr std::int64_t kBlock = 2048;
// Elements from which on all threads of the rank add.
constexpr std::int64_t kThreadsPay = 16 * kBlock;

struct Max {
  float operator()(float a, float x) const { return (a >= x || a != a) ? a : x; }
  std::int32_t operator()(std::int32_t a, std::int32_t x) const { return a >= x ? a : x; }
};

/// Elements of T, compared as Acc.
template <class Acc, class T>
void take_largest(T* out, std::span<const std::byte* const> sources, std::int64_t count) {
#ifdef _OPENMP
#pragma omp parallel for schedule(static) if (count >= kThreadsPay)
#endif
  for (std::int64_t first = 0; first < count; first += kBlock) {
    std::array<Acc, kBlock> block;
    Acc* const acc = block.data();
    const std::int64_t n = std::min(kBlock, count - first);
    const T* source = reinterpret_cast<const T*>(sources[0]) + first;
    for (std::int64_t i = 0; i < n; ++i) acc[i] = static_cast<Acc>(source[i]);
    for (std::size_t s = 1; s < sources.size(); ++s) {
      source = reinterpret_cast<const T*>(sources[s]) + first;
      for (std::int64_t i = 0; i < n; ++i) acc[i] = Max{}(acc[i], static_cast<Acc>(source[i]));
    }
    for (std::int64_t i = 0; i < n; ++i) out[first + i] = static_cast<T>(acc[i]);
  }
}

// Sources that one pass of a tree adds: as many as compilers keep in registers.
constexpr std::size_t kLeaf = 8;
// Elements of the partial sums of a tree. The partial sums of the few levels that a sum needs stay in the first-level
// cache.
constexpr std::int64_t kTreeBlock = 1024;
// Levels above the leaves: enough for as many sources as an int can count.
constexpr std::size_t kLevels = 32;

/// Element i of the tree over kN sources, kN a power of two.
template <std::size_t kN, class T>
inline float tree(const T* const* sources, std::int64_t i) {
  if constexpr (kN == 1)
    return static_cast<float>(sources[0][i]);
  else
    return tree<kN / 2>(sources, i) + tree<kN / 2>(sources + kN / 2, i);
}

template <std::size_t kN, class T>
void add_leaf(float* __restrict sum, const std::byte* const* sources, std::int64_t first, std::int64_t count) {
  std::array<const T*, kN> of;
  for (std::size_t s = 0; s < kN; ++s) of[s] = reinterpret_cast<const T*>(sources[s]) + first;
  for (std::int64_t i = 0; i < count; ++i) sum[i] = tree<kN>(of.data(), i);
}

/// Partial sums of consecutive sources: a binary counter whose digits are the sizes of the trees.
class PartialTrees {
 public:
  /// Adds the tree over the next sources, at most kLeaf and a power of two, to the counter.
  template <class T>
  void add(std::span<const std::byte* const> sources, std::int64_t first, std::int64_t count) {
    float* const sum = sums_[depth_].data();
    if (sources.size() == 8)
      add_leaf<8, T>(sum, sources.data(), first, count);
    else if (sources.size() == 4)
      add_leaf<4, T>(sum, sources.data(), first, count);
    else if (sources.size() == 2)
      add_leaf<2, T>(sum, sources.data(), first, count);
    else
      add_leaf<1, T>(sum, sources.data(), first, count);
    sizes_[depth_++] = sources.size();
    while (depth_ > 1 && sizes_[depth_ - 2] == sizes_[depth_ - 1]) add_last_two(count);
  }
  /// The sum of all that were added.
  const float* sum(std::int64_t count) {
    while (depth_ > 1) add_last_two(count);
    return sums_[0].data();
  }

 private:
  void add_last_two(std::int64_t count) {
    --depth_;
    float* const left = sums_[depth_ - 1].data();
    const float* const right = sums_[depth_].data();
    for (std::int64_t i = 0; i < count; ++i) left[i] += right[i];
    sizes_[depth_ - 1] += sizes_[depth_];
  }

  std::array<std::array<float, kTreeBlock>, kLevels> sums_;
  std::array<std::size_t, kLevels> sizes_;
  std::size_t depth_ = 0;
};

/// Sums fp32 or bf16 as SumOrder::tree.
template <class T>
void sum_as_tree(T* out, std::span<const std::byte* const> sources, std::int64_t count, const T* addend) {
#ifdef _OPENMP
#pragma omp parallel for schedule(static) if (count >= kThreadsPay)
#endif
  for (std::int64_t first = 0; first < count; first += kTreeBlock) {
    const std::int64_t n = std::min(kTreeBlock, count - first);
    PartialTrees trees;
    for (std::size_t s = 0; s < sources.size();) {
      const std::size_t leaf = std::min(std::bit_floor(sources.size() - s), kLeaf);
      trees.add<T>(sources.subspan(s, leaf), first, n);
      s += leaf;
    }
    const float* const sum = trees.sum(n);
    if (addend == nullptr) {
      for (std::int64_t i = 0; i < n; ++i) out[first + i] = static_cast<T>(sum[i]);
    } else {
      for (std::int64_t i = 0; i < n; ++i)
        out[first + i] = static_cast<T>(sum[i] + static_cast<float>(addend[first + i]));
    }
  }
}

template <class Out, class T>
void add(Out* out, const float* begin, std::span<const std::byte* const> sources, std::int64_t count,
         const T* addend = nullptr) {
  const std::size_t first_source = begin == nullptr ? 1 : 0;
#ifdef _OPENMP
#pragma omp parallel for schedule(static) if (count >= kThreadsPay)
#endif
  for (std::int64_t first = 0; first < count; first += kBlock) {
    std::array<float, kBlock> sum;
    const std::int64_t n = std::min(kBlock, count - first);
    const auto add_source = [&](std::size_t s, bool adds) {
      const T* const source = reinterpret_cast<const T*>(sources[s]) + first;
      for (std::int64_t i = 0; i < n; ++i) {
        const auto x = static_cast<float>(source[i]);
        sum[static_cast<std::size_t>(i)] = adds ? sum[static_cast<std::size_t>(i)] + x : x;
      }
    };
    if (begin == nullptr)
      add_source(0, false);
    else
      std::copy_n(begin + first, n, sum.begin());
    for (std::size_t s = first_source; s < sources.size(); ++s) add_source(s, true);
    for (std::int64_t i = 0; i < n && addend != nullptr; ++i)
      sum[static_cast<std::size_t>(i)] += static_cast<float>(addend[first + i]);
    for (std::int64_t i = 0; i < n; ++i) out[first + i] = static_cast<Out>(sum[static_cast<std::size_t>(i)]);
  }
}

template <class T>
void add(std::byte* out, tensor::DType out_dtype, const float* begin, std::span<const std::byte* const> sources,
         std::int64_t count) {
  if (out_dtype == tensor::DType::fp32)
    add<float, T>(reinterpret_cast<float*>(out), begin, sources, count);
  else
    add<tensor::BFloat16, T>(reinterpret_cast<tensor::BFloat16*>(out), begin, sources, count);
}

}  // namespace

void add_in_order(std::byte* out, tensor::DType out_dtype, const float* begin,
                  std::span<const std::byte* const> sources, std::int64_t count, tensor::DType dtype) {
  if (count == 0) return;
  if (dtype == tensor::DType::fp32)
    add<float>(out, out_dtype, begin, sources, count);
  else
    add<tensor::BFloat16>(out, out_dtype, begin, sources, count);
}

void sum_in_order(std::byte* out, std::span<const std::byte* const> sources, std::int64_t count, tensor::DType dtype,
                  SumOrder order, const std::byte* addend) {
  const auto sum = [&](auto* to) {
    using T = std::remove_pointer_t<decltype(to)>;
    const auto* const last = reinterpret_cast<const T*>(addend);
    if (order == SumOrder::tree)
      sum_as_tree(to, sources, count, last);
    else
      add<T, T>(to, nullptr, sources, count, last);
  };
  if (dtype == tensor::DType::fp32) return sum(reinterpret_cast<float*>(out));
  SHARD8_REQUIRE(dtype == tensor::DType::bf16, "sum of {}: only fp32 and bf16 can be summed", name_of(dtype));
  sum(reinterpret_cast<tensor::BFloat16*>(out));
}

void max_in_order(std::byte* out, std::span<const std::byte* const> sources, std::int64_t count, tensor::DType dtype) {
  if (dtype == tensor::DType::i32)
    return take_largest<std::int32_t>(reinterpret_cast<std::int32_t*>(out), sources, count);
  if (dtype == tensor::DType::fp32) return take_largest<float>(reinterpret_cast<float*>(out), sources, count);
  SHARD8_REQUIRE(dtype == tensor::DType::bf16, "maximum of {}: only fp32, bf16 and i32 can be compared",
                 name_of(dtype));
  take_largest<float>(reinterpret_cast<tensor::BFloat16*>(out), sources, count);
}

}  // namespace shard8::comm
