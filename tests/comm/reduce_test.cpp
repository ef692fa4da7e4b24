// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/error.hpp"
#include "tests/comm/buffer.hpp"

namespace shard8::comm::tests {
namespace {

using Reduce = Communicator::Reduce;
using tensor::DType;

constexpr DType kSummed[] = {DType::fp32, DType::bf16};

// What element i of the sum must be, bit for bit: fp32 in rank order, one rounding to bf16.
float ordered_sum(int ranks, std::int64_t i, int salt, DType dtype) {
  const auto rounded = [dtype](float x) { return dtype == DType::bf16 ? static_cast<float>(tensor::BFloat16(x)) : x; };
  float sum = rounded(value(0, i, salt));
  for (int r = 1; r < ranks; ++r) sum += rounded(value(r, i, salt));
  return rounded(sum);
}

void expect_ordered_sum(const Buffer& out, std::int64_t first, std::int64_t count, int ranks, int salt, DType dtype) {
  for (std::int64_t i = 0; i < count; ++i) {
    ASSERT_EQ(out.get(i), ordered_sum(ranks, first + i, salt, dtype))
        << "element " << i << " of " << count << " of " << name_of(dtype);
  }
}

TEST(ReduceScatter, sums_in_rank_order) {
  const Communicator group = world();
  for (const DType dtype : kSummed) {
    for (const std::int64_t rows : kRows) {
      Buffer whole({rows * group.size(), 2}, dtype), out({rows, 2}, dtype);
      whole.fill(group.rank(), 1);
      group.reduce_scatter(out.tensor(), whole.tensor());
      expect_ordered_sum(out, rows * 2 * group.rank(), rows * 2, group.size(), 1, dtype);
    }
  }
}

// Hosts compute the sum themselves.
TEST(ReduceScatter, partial_sums_are_the_sum_on_hosts) {
  const Communicator group = world();
  for (const DType dtype : kSummed) {
    const std::int64_t rows = 1000;
    Buffer whole({rows * group.size()}, dtype), out({rows}, dtype);
    whole.fill(group.rank(), 1);
    tensor::PartialSums partial_sums;
    group.reduce_scatter_partial_sums({out.tensor(), whole.tensor()}, partial_sums, "fc1_dgrad").wait();
    ASSERT_EQ(partial_sums.count(), 1);
    EXPECT_EQ(partial_sums[0].data, out.tensor().data);
    expect_ordered_sum(out, rows * group.rank(), rows, group.size(), 1, dtype);
    EXPECT_THROW(
        group.reduce_scatter_partial_sums({out.tensor(), whole.tensor(), out.tensor()}, partial_sums, "fc1_dgrad")
            .wait(),
        base::Error);
  }
}

// Last, before the one rounding; it may be out.
TEST(ReduceScatter, adds_an_addend) {
  const Communicator group = world();
  if (group.size() == 1) {
    Buffer one({3}, DType::fp32), two({3}, DType::fp32);
    EXPECT_THROW(group.reduce_scatter(one.tensor(), two.tensor(), one.tensor()), base::Error);
    return;
  }
  const auto rounded = [](float x) { return static_cast<float>(tensor::BFloat16(x)); };
  for (const std::int64_t rows : kRows) {
    for (const bool in_out : {false, true}) {
      Buffer whole({rows * group.size()}, DType::bf16), out({rows}, DType::bf16), addend({rows}, DType::bf16);
      whole.fill(group.rank(), 1);
      for (Buffer* buffer : {&out, &addend}) buffer->fill(group.rank(), 2);
      group.reduce_scatter(out.tensor(), whole.tensor(), in_out ? out.tensor() : addend.tensor());
      for (std::int64_t i = 0; i < rows; ++i) {
        float sum = 0;
        for (int r = 0; r < group.size(); ++r) sum += rounded(value(r, rows * group.rank() + i, 1));
        ASSERT_EQ(out.get(i), rounded(sum + rounded(value(group.rank(), i, 2)))) << i << " of " << rows;
      }
    }
  }
  Buffer whole({4 * group.size()}, DType::fp32), out({4}, DType::fp32), other({5}, DType::fp32);
  EXPECT_THROW(group.reduce_scatter(out.tensor(), whole.tensor(), other.tensor()), base::Error);
}

TEST(ReduceScatter, its_test_would_see_another_order) {
  if (world().size() < 3) return;  // two partial sums commute
  int differ = 0;
  for (std::int64_t i = 0; i < 1000; ++i) {
    const float forward = (value(0, i, 1) + value(1, i, 1)) + value(2, i, 1);
    const float backward = (value(2, i, 1) + value(1, i, 1)) + value(0, i, 1);
    if (forward != backward) ++differ;
  }
  EXPECT_GT(differ, 50);
}

TEST(ReduceScatter, agrees_with_plain_mpi) {
  const Communicator group = world();
  const std::int64_t rows = 1000;
  Buffer whole({rows * group.size()}, DType::fp32), out({rows}, DType::fp32);
  whole.fill(group.rank(), 2);
  std::vector<double> exact(static_cast<std::size_t>(rows * group.size())), mine(static_cast<std::size_t>(rows));
  for (std::size_t i = 0; i < exact.size(); ++i) exact[i] = whole.get(static_cast<std::int64_t>(i));
  MPI_Reduce_scatter_block(exact.data(), mine.data(), static_cast<int>(rows), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  group.reduce_scatter(out.tensor(), whole.tensor());
  // Each of N - 1 additions rounds a partial sum below 2N by at most half an ulp.
  const double bound = group.size() * 2.0 * group.size() * std::numeric_limits<float>::epsilon() / 2;
  for (std::size_t i = 0; i < mine.size(); ++i) {
    EXPECT_NEAR(out.get(static_cast<std::int64_t>(i)), mine[i], bound) << i;
  }
}

// Several items of both dtypes, odd sizes, one empty; some in place.
void reduce_items(const Communicator& group) {
  struct Case {
    std::int64_t rows;
    DType dtype;
    bool in_place;
  };
  const std::vector<Case> cases = {{1, DType::bf16, false},  {33, DType::fp32, true},     {0, DType::fp32, false},
                                   {777, DType::bf16, true}, {20000, DType::fp32, false}, {5, DType::bf16, false},
                                   {1, DType::fp32, true}};
  std::vector<Buffer> wholes, outs;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    wholes.emplace_back(tensor::Shape{cases[i].rows * group.size(), 3}, cases[i].dtype)
        .fill(group.rank(), static_cast<int>(i));
    outs.emplace_back(tensor::Shape{cases[i].rows, 3}, cases[i].dtype);
  }
  std::vector<Communicator::ReduceScatterItem> items;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const auto own = wholes[i].tensor().slice(group.rank() * cases[i].rows, cases[i].rows);
    items.push_back({cases[i].in_place ? own : outs[i].tensor(), wholes[i].tensor()});
  }
  group.reduce_scatter(items).wait();
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const auto& [rows, dtype, in_place] = cases[i];
    if (in_place) std::memcpy(outs[i].bytes().data(), items[i].out.data, outs[i].bytes().size());
    expect_ordered_sum(outs[i], rows * 3 * group.rank(), rows * 3, group.size(), static_cast<int>(i), dtype);
  }
}

TEST(ReduceScatter, many_items_in_one_call) { reduce_items(world()); }
TEST(ReduceScatter, many_items_spinning) { reduce_items(world(nullptr, Waiting::spin)); }
TEST(ReduceScatter, messages_longer_than_the_limit_are_cut) { reduce_items(world(Limits{.message_bytes = 999})); }
TEST(ReduceScatter, large_groups_use_the_library) {
  reduce_items(world(Limits{.direct_ranks = 1}));
  // An item too long for the library's counts goes directly, beside others.
  reduce_items(world(Limits{.message_bytes = 3000, .direct_ranks = 1}));
}

TEST(ReduceScatter, steady_state_allocates_nothing_and_plan_knows_it) {
  const Communicator group = world();
  EXPECT_EQ(group.scratch_bytes(), 0u);
  Buffer whole({1000 * group.size(), 7}, DType::fp32), out({1000, 7}, DType::fp32);
  whole.fill(group.rank());
  for (int i = 0; i < 3; ++i) {
    group.reduce_scatter(out.tensor(), whole.tensor());
    const auto most = Communicator::reduce_scatter_scratch_bytes(whole.bytes().size(), group.size());
    EXPECT_LE(group.scratch_bytes(), most);
    EXPECT_GE(group.scratch_bytes() + 8, most);
  }
}

TEST(ReduceScatter, refuses_what_does_not_fit) {
  const Communicator group = world();
  Buffer whole({4 * group.size()}, DType::fp32), out({5}, DType::fp32);
  EXPECT_THROW(group.reduce_scatter(out.tensor(), whole.tensor()), base::Error);
  Buffer ints({4 * group.size()}, DType::i32), int_out({4}, DType::i32);
  EXPECT_THROW(group.reduce_scatter(int_out.tensor(), ints.tensor()), base::Error);
}

TEST(AllReduce, sums_in_rank_order_the_same_on_every_rank) {
  const Communicator group = world();
  for (const DType dtype : kSummed) {
    for (const std::int64_t n : kRows) {
      Buffer first({n}, dtype), second({n}, dtype);
      for (Buffer* b : {&first, &second}) {
        b->fill(group.rank(), 3);
        group.all_reduce(std::vector{b->tensor()}, Reduce::sum).wait();
      }
      expect_ordered_sum(first, 0, n, group.size(), 3, dtype);
      EXPECT_TRUE(same_everywhere(first.bytes(), group.size()));
      EXPECT_EQ(first.bytes(), second.bytes());
    }
  }
}

// Small (one exchange) and large (two stages) groups of items.
void all_reduce_items(const Communicator& group, std::int64_t scale) {
  const std::vector<std::pair<std::int64_t, DType>> cases = {
      {1, DType::bf16}, {3 * scale, DType::fp32}, {0, DType::bf16}, {77 * scale + 1, DType::bf16}, {11, DType::fp32}};
  std::vector<Buffer> buffers;
  std::vector<tensor::Tensor> tensors;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    buffers.emplace_back(tensor::Shape{cases[i].first}, cases[i].second).fill(group.rank(), static_cast<int>(i));
  }
  for (Buffer& b : buffers) tensors.push_back(b.tensor());
  group.all_reduce(tensors, Reduce::sum).wait();
  for (std::size_t i = 0; i < cases.size(); ++i) {
    expect_ordered_sum(buffers[i], 0, cases[i].first, group.size(), static_cast<int>(i), cases[i].second);
    EXPECT_TRUE(same_everywhere(buffers[i].bytes(), group.size()));
  }
}

TEST(AllReduce, small_items_in_one_call) { all_reduce_items(world(), 10); }
TEST(AllReduce, large_items_in_one_call) { all_reduce_items(world(), 3000); }
TEST(AllReduce, large_items_spinning) { all_reduce_items(world(nullptr, Waiting::spin), 3000); }
TEST(AllReduce, messages_longer_than_the_limit_are_cut) {
  all_reduce_items(world(Limits{.message_bytes = 4099}), 3000);
}

TEST(AllReduce, maximum_equals_plain_mpi_and_nan_wins) {
  const Communicator group = world();
  for (const std::int64_t n : {std::int64_t{1}, std::int64_t{1000}, std::int64_t{100000}}) {
    Buffer mine({n}, DType::fp32);
    mine.fill(group.rank(), 4);
    std::vector<float> expected(static_cast<std::size_t>(n)), in(expected.size());
    std::memcpy(in.data(), mine.bytes().data(), mine.bytes().size());
    MPI_Allreduce(in.data(), expected.data(), static_cast<int>(n), MPI_FLOAT, MPI_MAX, MPI_COMM_WORLD);
    const std::int64_t nan_at = n / 2;
    const int nan_on = group.size() - 1;
    if (n > 1 && group.rank() == nan_on) mine.set(nan_at, std::numeric_limits<float>::quiet_NaN());
    group.all_reduce(std::vector{mine.tensor()}, Reduce::max).wait();
    for (std::int64_t i = 0; i < n; ++i) {
      if (n > 1 && i == nan_at) {
        EXPECT_TRUE(std::isnan(mine.get(i)));
      } else {
        ASSERT_EQ(mine.get(i), expected[static_cast<std::size_t>(i)]) << i;
      }
    }
  }
}

// In one exchange and in two stages, beside a tensor of another dtype.
TEST(AllReduce, maximum_of_signed_integers_equals_plain_mpi) {
  const Communicator group = world();
  for (const std::int64_t n : {std::int64_t{0}, std::int64_t{1}, std::int64_t{999}, std::int64_t{100001}}) {
    Buffer mine({n}, DType::i32), floats({37}, DType::fp32), other({37}, DType::fp32);
    mine.fill(group.rank(), 5);  // of both signs
    for (Buffer* b : {&floats, &other}) b->fill(group.rank(), 6);
    std::vector<std::int32_t> in(static_cast<std::size_t>(n)), expected(in.size()), got(in.size());
    if (n > 0) std::memcpy(in.data(), mine.bytes().data(), mine.bytes().size());
    MPI_Allreduce(in.data(), expected.data(), static_cast<int>(n), MPI_INT32_T, MPI_MAX, MPI_COMM_WORLD);
    group.all_reduce(std::vector{mine.tensor(), floats.tensor()}, Reduce::max).wait();
    if (n > 0) std::memcpy(got.data(), mine.bytes().data(), mine.bytes().size());
    EXPECT_EQ(got, expected) << n;
    EXPECT_TRUE(same_everywhere(mine.bytes(), group.size()));
    group.all_reduce(std::vector{other.tensor()}, Reduce::max).wait();
    EXPECT_EQ(floats.bytes(), other.bytes());
  }
}

TEST(AllReduce, maximum_of_bit_patterns_is_that_of_amaxes) {
  const Communicator group = world();
  const int last = group.size() - 1;
  constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
  const auto rank = static_cast<float>(group.rank());
  const bool is_last = group.rank() == last;
  // Read as signed integers: 0, subnormals, numbers, infinity, NaN, in this order.
  const std::vector<float> amaxes{0.0f, (rank + 1) * 1e-44f, rank + 0.5f, is_last ? kInfinity : 3e38f,
                                  is_last ? kNan : kInfinity};
  Buffer mine({5}, DType::i32);
  std::memcpy(mine.bytes().data(), amaxes.data(), mine.bytes().size());
  group.all_reduce(std::vector{mine.tensor()}, Reduce::max).wait();
  std::vector<float> got(5);
  std::memcpy(got.data(), mine.bytes().data(), mine.bytes().size());
  EXPECT_EQ(got[0], 0.0f);
  EXPECT_EQ(got[1], static_cast<float>(last + 1) * 1e-44f);
  EXPECT_EQ(got[2], static_cast<float>(last) + 0.5f);
  EXPECT_EQ(got[3], kInfinity);
  EXPECT_TRUE(std::isnan(got[4]));
}

TEST(AllReduce, refuses_what_it_cannot_reduce) {
  const Communicator group = world();
  Buffer ints({4}, DType::i32), bytes({4}, DType::e4m3);
  EXPECT_THROW((void)group.all_reduce(std::vector{ints.tensor()}, Reduce::sum), base::Error);
  for (const Reduce reduce : {Reduce::sum, Reduce::max}) {
    EXPECT_THROW((void)group.all_reduce(std::vector{bytes.tensor()}, reduce), base::Error);
  }
}

TEST(AllReduce, scratch_is_what_plan_is_told) {
  for (const std::int64_t n : {100, 16000, 20000, 300000}) {
    const Communicator group = world();
    Buffer mine({n}, DType::fp32);
    mine.fill(group.rank());
    group.all_reduce(std::vector{mine.tensor()}, Reduce::sum).wait();
    const auto most = Communicator::all_reduce_scratch_bytes(mine.bytes().size(), group.size());
    EXPECT_LE(group.scratch_bytes(), most);
    EXPECT_GE(static_cast<double>(group.scratch_bytes()), 0.97 * static_cast<double>(most)) << n;
  }
}

}  // namespace
}  // namespace shard8::comm::tests
