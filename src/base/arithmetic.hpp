// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

/// Marks an inline function that runs on hosts and, compiled by a device's compiler, on devices as well. The macro does
/// what KOKKOS_INLINE_FUNCTION does, for headers that plain CUDA sources include.
#if defined(__CUDACC__)
#define SHARD8_FUNCTION __host__ __device__ __forceinline__
#else
#define SHARD8_FUNCTION inline
#endif

namespace shard8::base {

/// The finaliser of splitmix64: a bijection of 64-bit integers. Every bit of the result depends on every bit of x.
/// Source: Steele, Lea and Flood, 2014.
constexpr std::uint64_t mix64(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

inline constexpr double kGiB = 1024.0 * 1024 * 1024;  ///< bytes

/// The mean of values, 0 without any.
inline double mean_of(std::span<const double> values) {
  double sum = 0;
  for (const double x : values) sum += x;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

/// The divisors of `n` >= 1 in ascending order, found in √n steps.
inline std::vector<std::int64_t> divisors_of(std::int64_t n) {
  std::vector<std::int64_t> low, high;
  for (std::int64_t d = 1; d * d <= n; ++d) {
    if (n % d != 0) continue;
    low.push_back(d);
    if (d * d != n) high.insert(high.begin(), n / d);
  }
  low.insert(low.end(), high.begin(), high.end());
  return low;
}

}  // namespace shard8::base
