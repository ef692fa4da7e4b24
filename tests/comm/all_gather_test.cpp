// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "base/error.hpp"
#include "tests/comm/buffer.hpp"

namespace shard8::comm::tests {
namespace {

using tensor::DType;
using tensor::Shape;

constexpr DType kDTypes[] = {DType::fp32, DType::bf16, DType::i32,  DType::u8,
                             DType::e4m3, DType::e5m2, DType::e8m0, DType::i16};

TEST(AllGather, in_place_equals_plain_mpi) {
  const Communicator group = world();
  for (const DType dtype : kDTypes) {
    for (const std::int64_t rows : kRows) {
      Buffer shard({rows, 3}, dtype);
      shard.fill(group.rank());
      Buffer whole({rows * group.size(), 3}, dtype);
      if (rows > 0) {
        std::memcpy(whole.tensor().slice(group.rank() * rows, rows).data, shard.bytes().data(), shard.bytes().size());
      }
      const std::vector<tensor::Tensor> tensors{whole.tensor()};
      group.all_gather_in_place(tensors).wait();
      EXPECT_EQ(whole.bytes(), plain_all_gather(shard.bytes(), group.size())) << rows << " rows of " << name_of(dtype);
      Buffer apart({rows * group.size(), 3}, dtype);
      group.all_gather_in_place(std::array{apart.tensor()}, std::array{shard.tensor()}).wait();
      EXPECT_EQ(apart.bytes(), whole.bytes()) << "own rows elsewhere, " << rows << " of " << name_of(dtype);
    }
  }
}

// A unit: tensors of very different sizes, and dtypes, in one call.
void gather_unit(const Communicator& group) {
  const std::vector<std::pair<Shape, DType>> shards = {
      {{64}, DType::fp32}, {{0, 5}, DType::fp32},    {{7, 33}, DType::bf16},    {{200, 256}, DType::fp32},
      {{1}, DType::u8},    {{3, 5, 7}, DType::bf16}, {{1000, 77}, DType::bf16}, {{64}, DType::fp32}};
  std::vector<Buffer> mine, whole;
  std::vector<tensor::Tensor> tensors, own;  // of every other tensor this rank's rows lie elsewhere
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const auto& [shape, dtype] = shards[i];
    mine.emplace_back(shape, dtype).fill(group.rank(), static_cast<int>(i));
    whole.emplace_back(Shape{shape.count() * group.size()}, dtype);
  }
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const auto bytes = mine[i].bytes().size();
    own.push_back(i % 2 == 0 ? mine[i].tensor() : tensor::Tensor{});
    if (bytes > 0 && i % 2 != 0)
      std::memcpy(whole[i].bytes().data() + bytes * static_cast<std::size_t>(group.rank()), mine[i].bytes().data(),
                  bytes);
    tensors.push_back(whole[i].tensor());
  }
  group.all_gather_in_place(tensors, own).wait();
  for (std::size_t i = 0; i < shards.size(); ++i) {
    EXPECT_EQ(whole[i].bytes(), plain_all_gather(mine[i].bytes(), group.size())) << "tensor " << i;
  }
}

TEST(AllGather, a_unit_in_one_call) { gather_unit(world()); }
TEST(AllGather, a_unit_spinning) { gather_unit(world(nullptr, Waiting::spin)); }

TEST(AllGather, messages_longer_than_the_limit_are_cut) {
  gather_unit(world(Limits{.message_bytes = 1001}));
  const Communicator group = world(Limits{.message_bytes = 1});
  Buffer mine({5}, DType::fp32), whole({5 * group.size()}, DType::fp32);
  mine.fill(group.rank());
  group.all_gather(whole.tensor(), mine.tensor());
  EXPECT_EQ(whole.bytes(), plain_all_gather(mine.bytes(), group.size()));
}

TEST(AllGather, large_groups_use_the_library) {
  gather_unit(world(Limits{.direct_ranks = 1}));
  gather_unit(world(Limits{.message_bytes = 3000, .direct_ranks = 1}));
}

TEST(AllGather, blocking_out_of_place_and_own_rows) {
  const Communicator group = world();
  for (const std::int64_t rows : kRows) {
    Buffer mine({rows, 2}, DType::bf16), whole({rows * group.size(), 2}, DType::bf16);
    mine.fill(group.rank());
    group.all_gather(whole.tensor(), mine.tensor());
    const auto expected = plain_all_gather(mine.bytes(), group.size());
    EXPECT_EQ(whole.bytes(), expected);
    // From the rows where they belong.
    if (rows == 0) continue;
    Buffer again({rows * group.size(), 2}, DType::bf16);
    const tensor::Tensor own = again.tensor().slice(group.rank() * rows, rows);
    std::memcpy(own.data, mine.bytes().data(), mine.bytes().size());
    group.all_gather(again.tensor(), own);
    EXPECT_EQ(again.bytes(), expected);
  }
}

TEST(AllGather, refuses_what_does_not_fit) {
  const Communicator group = world();
  Buffer mine({4}, DType::fp32), whole({4 * group.size() + 1}, DType::fp32), other({4 * group.size()}, DType::i32);
  EXPECT_THROW(group.all_gather(whole.tensor(), mine.tensor()), base::Error);
  EXPECT_THROW(group.all_gather(other.tensor(), mine.tensor()), base::Error);
  if (group.size() == 1) return;
  EXPECT_THROW((void)group.all_gather_in_place(std::vector{whole.tensor()}), base::Error);
  Buffer even({group.size() * 2, 2}, DType::fp32), three({3, 2}, DType::fp32);
  EXPECT_THROW((void)group.all_gather_in_place(std::array{even.tensor()}, std::array{three.tensor()}), base::Error);
  EXPECT_THROW((void)group.all_gather_in_place(std::array{even.tensor()}, std::array{three.tensor(), three.tensor()}),
               base::Error);
  const tensor::Tensor nothing{nullptr, {4 * group.size()}, DType::fp32};
  EXPECT_THROW((void)group.all_gather_in_place(std::vector{nothing}), base::Error);
}

}  // namespace
}  // namespace shard8::comm::tests
