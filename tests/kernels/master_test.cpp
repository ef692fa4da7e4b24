// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/adamw.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <vector>

#include "tests/kernels/buffer.hpp"

namespace shard8::tests {
namespace {

/// Every upper half, with the lower halves around which the rounding changes.
std::vector<std::uint32_t> patterns() {
  std::vector<std::uint32_t> all;
  for (std::uint32_t high = 0; high < 0x10000u; ++high) {
    for (const std::uint32_t low : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) all.push_back(high << 16 | low);
  }
  return all;
}
bool is_nan(std::uint32_t bits) { return (bits & 0x7fffffffu) > 0x7f800000u; }

class Master : public ::testing::Test {
 protected:
  void SetUp() override {
    store(whole_, bits_);
    kernels::split_master(Exec(), high_, low_, whole_);
    kernels::join_master(Exec(), again_, high_, low_);
    weights_ = stored<BFloat16>(high_);
    remainders_ = stored<std::int16_t>(low_);
    joined_ = stored<std::uint32_t>(again_);
  }
  float original(std::size_t i) const { return std::bit_cast<float>(bits_[i]); }
  BFloat16 weight(std::size_t i) const { return weights_[i]; }
  std::int16_t remainder(std::size_t i) const { return remainders_[i]; }
  std::uint32_t joined(std::size_t i) const { return joined_[i]; }

  std::vector<std::uint32_t> bits_ = patterns();
  Shape shape_{static_cast<std::int64_t>(bits_.size())};
  Buffer whole_{shape_, DType::fp32}, again_{shape_, DType::fp32, 1.0};
  Buffer high_{shape_, DType::bf16}, low_{shape_, DType::i16};
  std::vector<BFloat16> weights_;
  std::vector<std::int16_t> remainders_;
  std::vector<std::uint32_t> joined_;
};

TEST_F(Master, JoinsBitForBit) {
  for (std::size_t i = 0; i < bits_.size(); ++i) {
    if (is_nan(bits_[i])) {
      ASSERT_TRUE(is_nan(joined(i)) && is_nan(std::uint32_t{weight(i).bits} << 16)) << std::hex << bits_[i];
      ASSERT_EQ(joined(i) >> 31, bits_[i] >> 31);
    } else {
      ASSERT_EQ(joined(i), bits_[i]) << std::hex << bits_[i];
    }
  }
}

TEST_F(Master, IsTheWeightAndTheRemainder) {
  for (std::size_t i = 0; i < bits_.size(); ++i) {
    if (is_nan(bits_[i])) continue;
    const auto sum = (std::int64_t{weight(i).bits} << 16) + remainder(i);
    ASSERT_EQ(sum, std::int64_t{bits_[i]}) << std::hex << bits_[i];
  }
}

TEST_F(Master, WeightsAreRoundedToNearest) {
  std::size_t ties = 0, others = 0;
  for (std::size_t i = 0; i < bits_.size(); ++i) {
    const auto even = BFloat16(original(i));
    if (weight(i).bits == even.bits) continue;
    // An exact tie, which is rounded away from zero where nearest even is towards zero.
    ASSERT_EQ(bits_[i] & 0x1ffffu, 0x08000u) << std::hex << bits_[i];
    ASSERT_EQ(weight(i).bits, even.bits + 1);
    (is_nan(bits_[i]) ? others : ties) += 1;
  }
  EXPECT_EQ(others, 0u);
  EXPECT_EQ(ties, 2u * 0x7f80u / 2u) << "of all finite ones with an even upper half";
}

TEST(MasterErrors, SaysWhatDoesNotFit) {
  const Buffer p({4}, DType::fp32), w({4}, DType::bf16), r({4}, DType::i16), few({3}, DType::i16);
  EXPECT_THROW(kernels::split_master(Exec(), w, few, p), base::Error);
  EXPECT_THROW(kernels::join_master(Exec(), p, w, few), base::Error);
  EXPECT_THROW(kernels::split_master(Exec(), p, r, p), base::Error);
  EXPECT_THROW(kernels::join_master(Exec(), w, w, r), base::Error);
}

}  // namespace
}  // namespace shard8::tests
