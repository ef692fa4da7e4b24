// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/writer.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "tests/support/execution.hpp"

// On hosts, where the tensors themselves are read and parts are copied only before they change.

namespace shard8 {
namespace {

using checkpoint::Snapshot;
using checkpoint::StateTensor;
using Values = std::vector<float>;

constexpr std::int64_t kRows = 6, kCols = 8, kCount = kRows * kCols;

/// A tensor of the numbers from 0 on, in memory of this object.
struct State {
  explicit State(bool transposed) : memory(kCount) {
    std::iota(memory.begin(), memory.end(), 0.0f);
    tensors.resize(1);
    StateTensor& t = tensors[0];
    t.name = "w";
    t.shape = transposed ? tensor::Shape{kCols, kRows} : tensor::Shape{kRows, kCols};
    const io::Box box{0, t.shape[0], 0, t.shape[1]};
    t.parts.push_back(
        {box,
         transposed,
         {reinterpret_cast<std::byte*>(memory.data()), tensor::Shape{kRows, kCols}, tensor::DType::fp32}});
  }
  /// Elements of the box as they were at first.
  Values expected(std::int64_t first, std::int64_t count) const {
    Values values;
    for (std::int64_t i = first; i < first + count; ++i)
      values.push_back(static_cast<float>(tensors[0].parts[0].transposed ? i % kRows * kCols + i / kRows : i));
    return values;
  }
  Values memory;
  std::vector<StateTensor> tensors;
};

Values values_of(std::span<const std::byte> bytes) {
  Values values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// The state changes while a part of it is used: what counts in the end is what it was.
TEST(Snapshot, HoldsTheStateOfItsMomentWhileTrainingGoesOn) {
  if (tensor::kDevice) GTEST_SKIP() << "a device's state is copied when the snapshot is taken";
  for (const bool transposed : {false, true}) {
    for (const std::int64_t change_at : {0, 16, 32, 48}) {
      SCOPED_TRACE(testing::Message() << (transposed ? "transposed, " : "") << "changed at element " << change_at);
      State state(transposed);
      Snapshot snapshot(state.tensors, {});
      ASSERT_EQ(snapshot.pieces().size(), 1u);
      snapshot.take(tests::exec());
      EXPECT_TRUE(snapshot.holds(0));
      EXPECT_FALSE(snapshot.holds(1));
      std::vector<std::byte> buffer;
      const auto change = [&] {
        snapshot.before_change(tests::exec(), 0);
        EXPECT_FALSE(snapshot.holds(0));
        std::fill(state.memory.begin(), state.memory.end(), -1.0f);
      };
      for (std::int64_t first = 0; first < kCount; first += 16) {
        Values got;
        int uses = 0;
        snapshot.read(0, first, 16, buffer, [&](std::span<const std::byte> bytes) {
          if (uses++ == 0 && first == change_at) change();
          got = values_of(bytes);
        });
        EXPECT_EQ(got, state.expected(first, 16));
        EXPECT_EQ(uses, first == change_at && !transposed ? 2 : 1);
      }
      if (change_at == kCount) change();
      snapshot.release();
      EXPECT_FALSE(snapshot.held());
    }
  }
}

}  // namespace
}  // namespace shard8
