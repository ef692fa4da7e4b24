// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// One process plays all ranks of a group on one device, which sum what they push to each other.

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "tests/comm/peer/one_process.hpp"

namespace shard8::comm::tests {
namespace {

/// The sum of fp32 partial sums on the device, added by the host in their order.
std::vector<float> sum_on_host(const tensor::PartialSums& of) {
  std::vector<float> sum(static_cast<std::size_t>(of[0].count()), 0.0f);
  for (int k = 0; k < of.count(); ++k) {
    const auto bytes = download(of[k].data, of[k].bytes());
    for (std::size_t i = 0; i < sum.size(); ++i) {
      float x = 0;
      std::memcpy(&x, bytes.data() + i * sizeof x, sizeof x);
      sum[i] = k == 0 ? x : sum[i] + x;
    }
  }
  return sum;
}

// The host adds what the partial sums hold when all ranks have pushed. Other calls through the same memory come
// between.
TEST(OneProcessSums, partial_sums_are_left_to_their_reader) {
  for (const int size : {2, 3, 4}) {
    Scatters ranks(size);
    ranks.load_kernels();
    for (int call = 0; call < 3; ++call) {
      std::vector<tensor::PartialSums> partial_sums;
      for (int r = 0; r < size; ++r) {
        const auto i = static_cast<std::size_t>(r);
        partial_sums.push_back(ranks.sums[i]->push_partial_sums(ranks.items[i]));
      }
      for (int r = 0; r < size; ++r) {
        const tensor::PartialSums& of = partial_sums[static_cast<std::size_t>(r)];
        ASSERT_EQ(of.count(), size);
        const std::vector<float> sum = sum_on_host(of);
        const Buffer expected = ranks.sum_of(r);
        for (std::size_t i = 0; i < sum.size(); ++i) ASSERT_EQ(sum[i], expected.get(static_cast<std::int64_t>(i)));
      }
      for (int r = 0; r < size; ++r) {
        const auto i = static_cast<std::size_t>(r);
        SHARD8_CUDA_CHECK(cudaMemset(ranks.out[i]->data(), 0xff, Scatters::kRows * sizeof(float)));
      }
      SHARD8_CUDA_CHECK(cudaDeviceSynchronize());
      for (int r = 0; r < size; ++r)
        ranks.sums[static_cast<std::size_t>(r)]->reduce_scatter({&ranks.items[static_cast<std::size_t>(r)], 1});
      for (int r = 0; r < size; ++r) {
        const Buffer expected = ranks.sum_of(r);
        EXPECT_EQ(download(ranks.out[static_cast<std::size_t>(r)]->data(), expected.bytes().size()), expected.bytes());
      }
    }
  }
}

/// Each rank gives its rows rank by rank, those for others in `pieces` pieces.
void give_rank_by_rank(Scatters& ranks, std::int64_t pieces) {
  auto& sums = ranks.sums;
  const std::size_t n = sums.size();
  for (std::size_t r = 0; r < n; ++r) sums[r]->begin(ranks.items[r]);
  for (std::size_t k = 1; k <= n; ++k) {
    for (std::size_t r = 0; r < n; ++r) {
      for (std::int64_t i = 0, of = k == n ? 1 : pieces; i < of; ++i) {
        const std::int64_t first = Scatters::kRows * i / of;
        sums[r]->give(static_cast<int>((r + k) % n), first, Scatters::kRows * (i + 1) / of - first);
      }
    }
  }
}

TEST(OneProcessSums, partial_sums_that_are_given_rank_by_rank_are_left_with_the_addend) {
  for (const int size : {2, 3, 4}) {
    Scatters ranks(size);
    const Parts addends(size, Scatters::kRows);
    for (int call = 0; call < 3; ++call) {
      for (int r = 0; r < size && call > 0; ++r)
        ranks.items[static_cast<std::size_t>(r)].addend = {
            const_cast<std::byte*>(addends.of(r)), {Scatters::kRows}, tensor::DType::fp32};
      give_rank_by_rank(ranks, call + 1);
      std::vector<tensor::PartialSums> partial_sums;
      for (const auto& sums : ranks.sums) partial_sums.push_back(sums->finish_partial_sums());
      for (int r = 0; r < size; ++r) {
        ASSERT_EQ(partial_sums[static_cast<std::size_t>(r)].count(), call > 0 ? size + 1 : size);
        const std::vector<float> sum = sum_on_host(partial_sums[static_cast<std::size_t>(r)]);
        const Buffer expected = ranks.sum_of(r);
        for (std::size_t i = 0; i < sum.size(); ++i) {
          const float of_ranks = expected.get(static_cast<std::int64_t>(i));
          ASSERT_EQ(sum[i], call > 0 ? of_ranks + value(r, static_cast<std::int64_t>(i)) : of_ranks);
        }
      }
    }
  }
}

TEST(OneProcessSums, partial_sums_that_are_given_rank_by_rank_are_summed_in_rank_order) {
  for (const int size : {2, 3, 4, 8}) {
    const auto n = static_cast<std::size_t>(size);
    Scatters ranks(size);
    auto& sums = ranks.sums;
    for (std::size_t r = 0; r < n; ++r) ASSERT_TRUE(sums[r]->fits(ranks.items[r]));
    for (int call = 0; call < 3; ++call) {
      give_rank_by_rank(ranks, call + 1);
      for (std::size_t r = 0; r < n; ++r) sums[r]->finish();
      for (int r = 0; r < size; ++r) {
        const Buffer expected = ranks.sum_of(r);
        EXPECT_EQ(download(ranks.out[static_cast<std::size_t>(r)]->data(), expected.bytes().size()), expected.bytes())
            << size << " ranks, rank " << r;
      }
    }
  }
}

}  // namespace
}  // namespace shard8::comm::tests
