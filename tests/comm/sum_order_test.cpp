// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/parts.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "comm/mesh.hpp"
#include "comm/mpi/all_reduce.hpp"
#include "tests/comm/buffer.hpp"

// Sums of which the order is known: by the functions that add, and by the collectives of groups of 1 to 9 ranks.

namespace shard8::comm::tests {
namespace {

using base::Axis;
using base::AxisSet;
using tensor::DType;
using Way = AllReducePlan::Way;

constexpr DType kDTypes[] = {DType::fp32, DType::bf16};
constexpr SumOrder kOrders[] = {SumOrder::ranks, SumOrder::tree};

/// The tree over x[0] … x[n − 1]: its left branch has the most values that are a power of two and fewer than n.
float tree(const float* x, std::size_t n) {
  if (n == 1) return x[0];
  const std::size_t left = std::bit_floor(n - 1);
  return tree(x, left) + tree(x + left, n - left);
}

float sum_of(const std::vector<float>& x, SumOrder order) {
  if (order == SumOrder::tree) return tree(x.data(), x.size());
  float sum = x[0];
  for (std::size_t r = 1; r < x.size(); ++r) sum += x[r];
  return sum;
}

/// What rank 0 and rank 2 have is large and cancels. So the order of a sum shows after a rounding to bf16, too.
float term(int rank, std::int64_t i, int salt) {
  const float large = std::ldexp(value(99, i, salt), 20);
  return rank == 0 ? large : rank == 2 ? -large : value(rank, i, salt);
}

void fill(Buffer& buffer, int rank, int salt) {
  for (std::int64_t i = 0; i < buffer.count(); ++i) buffer.set(i, term(rank, i, salt));
}

float rounded(float x, DType dtype) { return dtype == DType::bf16 ? static_cast<float>(tensor::BFloat16(x)) : x; }

/// What element i of the sum over ranks 0 … n − 1 must be, bit for bit. `addend`: of this rank, or −1.
float expected(int n, std::int64_t i, int salt, DType dtype, SumOrder order, int addend = -1, std::int64_t own = 0) {
  std::vector<float> x;
  for (int r = 0; r < n; ++r) x.push_back(rounded(term(r, i, salt), dtype));
  float sum = sum_of(x, order);
  if (addend >= 0) sum += rounded(term(addend, own, salt + 1), dtype);
  return rounded(sum, dtype);
}

TEST(SumOrder, the_tree_has_these_brackets) {
  std::vector<float> x;
  for (int r = 0; r < 9; ++r) x.push_back(value(r, 3));
  const auto of = [&](std::size_t n) { return tree(x.data(), n); };
  EXPECT_EQ(of(2), x[0] + x[1]);
  EXPECT_EQ(of(3), (x[0] + x[1]) + x[2]);
  EXPECT_EQ(of(4), (x[0] + x[1]) + (x[2] + x[3]));
  EXPECT_EQ(of(5), of(4) + x[4]);
  EXPECT_EQ(of(6), of(4) + (x[4] + x[5]));
  EXPECT_EQ(of(7), of(4) + ((x[4] + x[5]) + x[6]));
  EXPECT_EQ(of(8), of(4) + ((x[4] + x[5]) + (x[6] + x[7])));
  EXPECT_EQ(of(9), of(8) + x[8]);
}

TEST(SumOrder, its_tests_would_see_another_order) {
  for (const DType dtype : kDTypes) {
    for (int n = 4; n <= 9; ++n) {
      int differ = 0;
      for (std::int64_t i = 0; i < 1000; ++i)
        differ += expected(n, i, 1, dtype, SumOrder::tree) != expected(n, i, 1, dtype, SumOrder::ranks) ? 1 : 0;
      EXPECT_GT(differ, 50) << n << " ranks of " << name_of(dtype);
    }
  }
}

// One element, a part of a block, several blocks, and as many as threads share. Out is of its own, a source or the
// addend.
TEST(SumOrder, sums_have_it) {
  const int rank = world().rank(), size = world().size();  // each rank tries some numbers of sources
  for (const DType dtype : kDTypes) {
    for (const SumOrder order : kOrders) {
      for (const int n : {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17, 31, 33}) {
        for (const std::int64_t count : {1, 777, 5000, 40000}) {
          if (n % size != rank || (count == 40000 && n > 9)) continue;
          const bool adds = (n + count) % 2 == 0;
          std::vector<Buffer> buffers;
          std::vector<const std::byte*> sources;
          for (int r = 0; r < n; ++r) fill(buffers.emplace_back(tensor::Shape{count}, dtype), r, 1);
          for (const Buffer& b : buffers) sources.push_back(b.bytes().data());
          Buffer addend({count}, dtype), other({count}, dtype);
          fill(addend, 5, 2);
          Buffer& out = n % 3 == 0 ? other : n % 3 == 1 || !adds ? buffers.back() : addend;
          sum_in_order(out.bytes().data(), sources, count, dtype, order, adds ? addend.bytes().data() : nullptr);
          for (std::int64_t i = 0; i < count; ++i)
            ASSERT_EQ(out.get(i), expected(n, i, 1, dtype, order, adds ? 5 : -1, i))
                << "element " << i << " of " << count << ", " << n << " sources of " << name_of(dtype);
        }
      }
    }
  }
}

/// Calls use(group) for groups of the first n ranks, and of the others, for n = 1 … 9.
template <class Use>
void for_groups(const Limits& limits, SumOrder order, const Use& use) {
  const Communicator all = world(limits);
  for (int n = 1; n <= all.size(); ++n) {
    const Communicator group = all.split(all.rank() < n ? 0 : 1, all.rank(), "part", {}, order);
    EXPECT_EQ(group.order(), order);
    use(group);
  }
}

void reduce_scatter(const Communicator& group, std::int64_t rows) {
  const int n = group.size(), rank = group.rank();
  const bool adds = n > 1;
  std::vector<Buffer> wholes, outs, addends;
  std::vector<Communicator::ReduceScatterItem> items;
  for (const DType dtype : kDTypes) {
    fill(wholes.emplace_back(tensor::Shape{rows * n}, dtype), rank, 1);
    outs.emplace_back(tensor::Shape{rows}, dtype);
    fill(addends.emplace_back(tensor::Shape{rows}, dtype), rank, 2);
  }
  for (std::size_t i = 0; i < wholes.size(); ++i) {
    items.push_back({outs[i].tensor(), wholes[i].tensor()});
    if (adds) items.push_back({addends[i].tensor(), wholes[i].tensor(), addends[i].tensor()});
  }
  group.reduce_scatter(items).wait();
  for (std::size_t b = 0; b < outs.size(); ++b) {
    for (std::int64_t i = 0; i < rows; ++i) {
      const std::int64_t at = rows * rank + i;
      ASSERT_EQ(outs[b].get(i), expected(n, at, 1, kDTypes[b], group.order())) << i << ", " << n << " ranks";
      if (!adds) continue;
      ASSERT_EQ(addends[b].get(i), expected(n, at, 1, kDTypes[b], group.order(), rank, i))
          << i << ", " << n << " ranks";
    }
  }
}

TEST(SumOrder, reduce_scatters_have_it) {
  for (const SumOrder order : kOrders)
    for (const int direct_ranks : {32, 1})  // directly, and by MPI_Ialltoall
      for_groups({.direct_ranks = direct_ranks}, order, [](const Communicator& group) { reduce_scatter(group, 1001); });
}

void all_reduce(const Communicator& group, const Limits& limits, std::int64_t count, Way way) {
  const int n = group.size();
  std::vector<Buffer> buffers;
  std::vector<tensor::Tensor> tensors;
  std::size_t bytes = 0;
  for (const DType dtype : kDTypes) fill(buffers.emplace_back(tensor::Shape{count}, dtype), group.rank(), 1);
  for (Buffer& b : buffers) tensors.push_back(b.tensor());
  for (const Buffer& b : buffers) bytes += b.bytes().size();
  if (n > limits.direct_ranks || (n > 1 && (way == Way::all || way == Way::cut))) {
    ASSERT_EQ(static_cast<int>(plan_all_reduce(bytes, tensors.size(), n, limits).way), static_cast<int>(way));
  }
  group.all_reduce(tensors, Communicator::Reduce::sum).wait();
  for (std::size_t b = 0; b < buffers.size(); ++b)
    for (std::int64_t i = 0; i < count; ++i)
      ASSERT_EQ(buffers[b].get(i), expected(n, i, 1, kDTypes[b], group.order())) << i << ", " << n << " ranks";
}

TEST(SumOrder, all_reduces_have_it_in_every_way) {
  struct Case {
    Way way;
    std::int64_t count;
    Limits limits;
  };
  const Case cases[] = {{Way::all, 500, {}},
                        {Way::cut, 11001, {}},
                        {Way::relay_all, 300, {.direct_ranks = 1}},
                        {Way::relay_cut, 11001, {.direct_ranks = 1}},
                        {Way::relay_cut, 11001, {.message_bytes = 9999, .direct_ranks = 1}}};  // in rounds
  for (const SumOrder order : kOrders)
    for (const auto& [way, count, limits] : cases)
      for_groups(limits, order,
                 [&, w = way, c = count, l = limits](const Communicator& group) { all_reduce(group, l, c, w); });
}

/// Calls use(mesh) with a mesh of the first ranks.
template <class Use>
void on_mesh(const base::Extents& extents, const Use& use) {
  const Communicator all = world();
  const bool inside = all.rank() < extents.ranks();
  Communicator part = all.split(inside ? 0 : 1, all.rank(), "first ranks");
  if (inside) use(make_mesh(std::move(part), extents, {}, {AxisSet::data}));
}

TEST(SumOrder, of_a_mesh_is_a_tree_where_gradients_are_summed) {
  on_mesh(base::Extents(2, 2, 2).with_experts(2), [](const Mesh& mesh) {
    for (const AxisSet axes :
         {AxisSet::replicate, AxisSet::shard, AxisSet::data, AxisSet::model, AxisSet::expert_shard})
      EXPECT_EQ(mesh.group(axes).order(), SumOrder::tree) << base::name_of(axes);
    for (const AxisSet axes : {AxisSet::tensor, AxisSet::expert, AxisSet::world})
      EXPECT_EQ(mesh.group(axes).order(), SumOrder::ranks) << base::name_of(axes);
  });
}

// As gradients are: over shards, then over replicas.
TEST(SumOrder, of_eight_data_ranks_is_that_of_every_split) {
  constexpr std::int64_t kRows = 1200;
  for (const int shard : {1, 2, 4, 8}) {
    on_mesh({8 / shard, shard, 1}, [&](const Mesh& mesh) {
      Buffer whole({kRows}, DType::fp32), own({kRows / shard}, DType::fp32);
      fill(whole, mesh.place.rank(AxisSet::data), 1);
      mesh.group(AxisSet::shard).reduce_scatter(own.tensor(), whole.tensor());
      mesh.group(AxisSet::replicate).all_reduce(std::vector{own.tensor()}, Communicator::Reduce::sum).wait();
      const std::int64_t first = own.count() * mesh.place[Axis::shard];
      for (std::int64_t i = 0; i < own.count(); ++i)
        ASSERT_EQ(own.get(i), expected(8, first + i, 1, DType::fp32, SumOrder::tree)) << i << ", shard " << shard;
    });
  }
}

}  // namespace
}  // namespace shard8::comm::tests
