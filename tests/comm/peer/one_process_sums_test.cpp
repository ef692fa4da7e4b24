// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// One process plays all ranks of a group on one device, which sum what they push to each other.

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "comm/peer/push_sums.hpp"
#include "comm/peer/sum_parts.hpp"
#include "tests/comm/peer/one_process.hpp"

namespace shard8::comm::tests {
namespace {

/// The ranks of a group that reduce-scatter wholes of kRows rows of fp32 a rank.
struct Scatters {
  static constexpr std::int64_t kRows = 10007;

  explicit Scatters(int size) : wholes(size, kRows * size) {
    const std::size_t bytes = Communicator::reduce_memory_bytes(kRows * sizeof(float), size);
    const std::size_t all = PeerBlock::memory_bytes(bytes, size);
    std::vector<std::byte*> base;
    for (int r = 0; r < size; ++r) {
      base.push_back(memory.emplace_back(std::make_unique<Memory>(all))->data());
      out.push_back(std::make_unique<Memory>(kRows * sizeof(float)));
    }
    for (int r = 0; r < size; ++r) {
      streams.push_back(std::make_unique<Stream>());
      sums.push_back(std::make_unique<peer::PushSums>(std::make_shared<PeerAddresses>(r, base, all), bytes,
                                                      streams.back()->get()));
      items.push_back({{out[static_cast<std::size_t>(r)]->data(), {kRows}, tensor::DType::fp32},
                       {const_cast<std::byte*>(wholes.of(r)), {kRows * size}, tensor::DType::fp32}});
    }
  }
  /// The sum of rank r's rows, added in rank order.
  Buffer sum_of(int r) const {
    Buffer sum(tensor::Shape{kRows}, tensor::DType::fp32);
    for (std::int64_t i = 0; i < kRows; ++i) {
      float total = value(0, r * kRows + i);
      for (int from = 1; from < static_cast<int>(sums.size()); ++from) total += value(from, r * kRows + i);
      sum.set(i, total);
    }
    return sum;
  }

  Parts wholes;
  std::vector<std::unique_ptr<Memory>> memory, out;
  std::vector<std::unique_ptr<Stream>> streams;
  std::vector<std::unique_ptr<peer::PushSums>> sums;
  std::vector<Communicator::ReduceScatterItem> items;
};

/// The sum of fp32 summands on the device, added by the host in their order.
std::vector<float> sum_on_host(const tensor::Summands& of) {
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

// The host adds what the summands hold when all ranks have pushed. Other calls through the same memory come between.
TEST(OneProcessSums, summands_are_left_to_their_reader) {
  for (const int size : {2, 3, 4}) {
    Scatters ranks(size);
    // CUDA loads a kernel at its first launch, and must not do so while a stream waits.
    peer::Parts parts;
    for (int r = 0; r < size; ++r) parts.add(ranks.wholes.of(r));
    peer::sum_parts(ranks.streams[0]->get(), ranks.out[0]->data(), tensor::DType::fp32, Scatters::kRows, parts);
    SHARD8_CUDA_CHECK(cudaDeviceSynchronize());
    for (int call = 0; call < 3; ++call) {
      std::vector<tensor::Summands> summands;
      for (int r = 0; r < size; ++r) {
        const auto i = static_cast<std::size_t>(r);
        summands.push_back(ranks.sums[i]->push_summands(ranks.items[i]));
      }
      for (int r = 0; r < size; ++r) {
        const tensor::Summands& of = summands[static_cast<std::size_t>(r)];
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

TEST(OneProcessSums, summands_that_are_given_rank_by_rank_are_left_with_the_addend) {
  for (const int size : {2, 3, 4}) {
    Scatters ranks(size);
    const Parts addends(size, Scatters::kRows);
    for (int call = 0; call < 3; ++call) {
      for (int r = 0; r < size && call > 0; ++r)
        ranks.items[static_cast<std::size_t>(r)].addend = {
            const_cast<std::byte*>(addends.of(r)), {Scatters::kRows}, tensor::DType::fp32};
      give_rank_by_rank(ranks, call + 1);
      std::vector<tensor::Summands> summands;
      for (const auto& sums : ranks.sums) summands.push_back(sums->finish_summands());
      for (int r = 0; r < size; ++r) {
        ASSERT_EQ(summands[static_cast<std::size_t>(r)].count(), call > 0 ? size + 1 : size);
        const std::vector<float> sum = sum_on_host(summands[static_cast<std::size_t>(r)]);
        const Buffer expected = ranks.sum_of(r);
        for (std::size_t i = 0; i < sum.size(); ++i) {
          const float of_ranks = expected.get(static_cast<std::int64_t>(i));
          ASSERT_EQ(sum[i], call > 0 ? of_ranks + value(r, static_cast<std::int64_t>(i)) : of_ranks);
        }
      }
    }
  }
}

TEST(OneProcessSums, summands_that_are_given_rank_by_rank_are_summed_in_rank_order) {
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
