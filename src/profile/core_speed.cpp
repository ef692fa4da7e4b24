// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "profile/core_speed.hpp"

#include <algorithm>
#include <cstdint>

namespace shard8::profile {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kMost = 4;  ///< times the least that a sample may count

/// Eight chains of shifts and additions. The compiler may not shorten them: it cannot see what the empty assembly does.
[[gnu::noinline]] std::uint64_t fixed_work() {
  std::uint64_t a = 1, b = 2, c = 3, d = 4, e = 5, f = 6, g = 7, h = 8;
  for (int i = 0; i < 5000; ++i) {
    a += a << 3, b ^= b >> 5, c += c << 2, d ^= d >> 9;
    e += e << 1, f ^= f >> 3, g += g << 3, h ^= h >> 6;
    asm volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f), "+r"(g), "+r"(h));
  }
  return a ^ b ^ c ^ d ^ e ^ f ^ g ^ h;
}

}  // namespace

double CoreSpeed::seconds_of_work() {
  const Clock::time_point begin = Clock::now();
  [[maybe_unused]] const volatile std::uint64_t result = fixed_work();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

void CoreSpeed::sample() {
  if (samples_ > 0 && Clock::now() - last_ < kBetween) return;
  add(std::min(seconds_of_work(), seconds_of_work()));
  last_ = Clock::now();
}

void CoreSpeed::add(double seconds) {
  least_s_ = samples_ > 0 ? std::min(least_s_, seconds) : seconds;
  sum_s_ += std::min(seconds, kMost * least_s_);
  ++samples_;
}

double CoreSpeed::mean_s() const { return samples_ > 0 ? sum_s_ / static_cast<double>(samples_) : 0; }

}  // namespace shard8::profile
