// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/kernels/buffer.hpp"
#include "tests/support/compare.hpp"

namespace shard8::tests {
namespace {

using Doubles = std::vector<double>;

struct Case {
  std::int64_t tokens, seq, heads, rotated, half;
};
const std::vector<Case> kCases{
    {1, 1, 1, 1, 1}, {14, 7, 5, 3, 3}, {130, 65, 6, 4, 12}, {100, 100, 4, 4, 32}, {9, 3, 48, 40, 64}};

TEST(RopeTable, HoldsCosinesAndSines) {
  const std::int64_t seq = 300, half = 20;
  const float theta = 10000;
  const Buffer table({2, seq, half}, DType::fp32);
  kernels::rope_table(Exec(), table, theta);
  Doubles want;
  for (const bool sine : {false, true}) {
    for (std::int64_t p = 0; p < seq; ++p) {
      for (std::int64_t i = 0; i < half; ++i) {
        const double angle =
            static_cast<double>(p) * std::pow(static_cast<double>(theta), -static_cast<double>(i) / half);
        want.push_back(sine ? std::sin(angle) : std::cos(angle));
      }
    }
  }
  // Angles up to 300 are rounded to fp32 (2^-16 there), and so are the frequencies they come from.
  EXPECT_TRUE(all_close(table.get(), want, {0, 300 * 2e-7}));
}

class Rope : public ::testing::TestWithParam<DType> {};

TEST_P(Rope, RotatesHalvesAndBack) {
  const auto dtype = GetParam();
  for (const auto [tokens, seq, heads, rotated, half] : kCases) {
    SCOPED_TRACE(::testing::Message() << tokens << " tokens, " << heads << " heads of " << 2 * half);
    const Buffer table({2, seq, half}, DType::fp32);
    kernels::rope_table(Exec(), table, 10000);
    auto qkv = Buffer::normal({tokens, heads * 2 * half}, dtype, 1);
    const auto before = qkv.get(), angles = table.get();
    auto want = before, inverse = before;
    const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
    for (std::int64_t t = 0; t < tokens; ++t) {
      for (std::int64_t h = 0; h < rotated; ++h) {
        for (std::int64_t i = 0; i < half; ++i) {
          const double c = angles[at(t % seq * half + i)], s = angles[at((seq + t % seq) * half + i)];
          const auto first = at((t * heads + h) * 2 * half + i), second = first + at(half);
          want[first] = before[first] * c - before[second] * s;
          want[second] = before[second] * c + before[first] * s;
          inverse[first] = before[first] * c + before[second] * s;
          inverse[second] = before[second] * c - before[first] * s;
        }
      }
    }
    kernels::rope_forward(Exec(), qkv, table, rotated);
    EXPECT_TRUE(all_close(qkv.get(), want, {rounding(dtype), 1e-6}));
    kernels::rope_backward(Exec(), qkv, table, rotated);
    EXPECT_TRUE(all_close(qkv.get(), before, {rounding(dtype), dtype == DType::bf16 ? 0.03 : 1e-6}));
    qkv.set(before);
    kernels::rope_backward(Exec(), qkv, table, rotated);
    EXPECT_TRUE(all_close(qkv.get(), inverse, {rounding(dtype), 1e-6}));
  }
}

INSTANTIATE_TEST_SUITE_P(, Rope, ::testing::Values(DType::fp32, DType::bf16));

}  // namespace
}  // namespace shard8::tests
