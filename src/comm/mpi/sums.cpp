// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi/sums.hpp"

#include <algorithm>
#include <array>

#include "base/error.hpp"
#include "tensor/bfloat16.hpp"

namespace shard8::comm {
namespace {

// Elements accumulated at a time: stays in the first-level cache.
constexpr std::int64_t kBlock = 2048;
// Elements from which on all threads of the rank add.
constexpr std::int64_t kThreadsPay = 16 * kBlock;

struct Add {
  float operator()(float a, float x) const { return a + x; }
};
struct Max {
  float operator()(float a, float x) const { return (a >= x || a != a) ? a : x; }
  std::int32_t operator()(std::int32_t a, std::int32_t x) const { return a >= x ? a : x; }
};

/// Elements of T, combined as Acc.
template <class Acc, class T, class Op>
void combine(T* out, std::span<const std::byte* const> sources, std::int64_t count, Op op) {
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
      for (std::int64_t i = 0; i < n; ++i) acc[i] = op(acc[i], static_cast<Acc>(source[i]));
    }
    for (std::int64_t i = 0; i < n; ++i) out[first + i] = static_cast<T>(acc[i]);
  }
}

template <class Op>
void combine(std::byte* out, std::span<const std::byte* const> sources, std::int64_t count, tensor::DType dtype,
             Op op) {
  if (dtype == tensor::DType::fp32) {
    combine<float>(reinterpret_cast<float*>(out), sources, count, op);
  } else {
    SHARD8_REQUIRE(dtype == tensor::DType::bf16, "reduction of {}: only fp32 and bf16 can be reduced", name_of(dtype));
    combine<float>(reinterpret_cast<tensor::BFloat16*>(out), sources, count, op);
  }
}

template <class Out, class T>
void add(Out* out, const float* begin, std::span<const std::byte* const> sources, std::int64_t count) {
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

void sum_in_order(std::byte* out, std::span<const std::byte* const> sources, std::int64_t count, tensor::DType dtype) {
  if (count > 0) combine(out, sources, count, dtype, Add{});
}

void max_in_order(std::byte* out, std::span<const std::byte* const> sources, std::int64_t count, tensor::DType dtype) {
  if (count == 0) return;
  if (dtype == tensor::DType::i32)
    return combine<std::int32_t>(reinterpret_cast<std::int32_t*>(out), sources, count, Max{});
  combine(out, sources, count, dtype, Max{});
}

}  // namespace shard8::comm
