// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// One process plays all ranks of a group on one device, which push to each other.

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/peer/sum_parts.hpp"
#include "comm/peer/words_reader.hpp"
#include "tensor/cuda/device.hpp"
#include "tensor/dtype.hpp"
#include "tests/comm/peer/one_process.hpp"

namespace shard8::comm::tests {
namespace {

using peer::ExchangeKernels;
using peer::Handshake;
using tensor::cuda::Event;

/// Rank r pushes its part to the same place in the memory of its k-th peer.
void add_part(Ranks& ranks, const Parts& parts, int r, int k) {
  ranks[r].add(ranks[r].peer(k), static_cast<std::size_t>(r) * parts.bytes(), parts.of(r), parts.bytes());
}
void add_parts(Ranks& ranks, const Parts& parts) {
  for (int r = 0; r < ranks.size(); ++r) {
    for (int k = 1; k <= ranks.size(); ++k) add_part(ranks, parts, r, k);
  }
}

TEST(OneProcess, pushes_arrive_at_all_ranks) {
  for (const int size : {2, 3, 4, 8}) {
    const Parts parts(size, 40001);
    Ranks ranks(size, parts.all().size());
    for (int call = 0; call < 3; ++call) {
      for (int r = 0; r < size; ++r)
        SHARD8_CUDA_CHECK(cudaMemsetAsync(ranks[r].data(), call, parts.all().size(), ranks.stream(r)));
      add_parts(ranks, parts);
      for (int r = 0; r < size; ++r) ranks[r].push();
      for (int r = 0; r < size; ++r)
        EXPECT_EQ(download(ranks[r].data(), parts.all().size()), parts.all()) << size << " ranks, rank " << r;
    }
  }
}

/// 40,000 values are 100 rows of 400: rows of 1,600 bytes.
constexpr std::size_t kMatrixRows = 100, kRowBytes = 1600;

TEST(OneProcess, rows_are_pushed_side_by_side) {
  for (const int size : {2, 3, 4, 8}) {
    const Parts parts(size, 40000);
    Ranks ranks(size, parts.all().size());
    const auto all = static_cast<std::size_t>(size);
    {  // CUDA loads the kernel that copies own rows at its first launch, and must not do so while a stream waits
      Ranks one(1, parts.bytes());
      one[0].add_rows(0, 0, kRowBytes, parts.of(0), kRowBytes, kMatrixRows);
      one[0].push();
      ASSERT_EQ(download(one[0].data(), parts.bytes()), download(parts.of(0), parts.bytes()));
    }
    for (int call = 0; call < 3; ++call) {
      for (int r = 0; r < size; ++r)
        SHARD8_CUDA_CHECK(cudaMemsetAsync(ranks[r].data(), call, parts.all().size(), ranks.stream(r)));
      for (int r = 0; r < size; ++r)
        for (int k = 1; k <= size; ++k)
          ranks[r].add_rows(ranks[r].peer(k), static_cast<std::size_t>(r) * kRowBytes, all * kRowBytes, parts.of(r),
                            kRowBytes, kMatrixRows);
      for (int r = 0; r < size; ++r) ranks[r].push();
      for (int r = 0; r < size; ++r)
        ASSERT_EQ(download(ranks[r].data(), parts.all().size()), side_by_side(parts.all(), all, kRowBytes))
            << size << " ranks, rank " << r;
    }
  }
}

// Each rank's own rows come back from the peer that it pushes them to; no kernel copies anything.
TEST(OneProcess, peers_return_own_rows) {
  for (const int size : {2, 3, 4, 8}) {
    const Parts parts(size, 40000);
    Ranks ranks(size, parts.all().size());
    const auto all = static_cast<std::size_t>(size);
    for (const bool in_rows : {true, false, true}) {
      for (int r = 0; r < size; ++r)
        SHARD8_CUDA_CHECK(cudaMemsetAsync(ranks[r].data(), 0xff, parts.all().size(), ranks.stream(r)));
      for (int r = 0; r < size; ++r) {
        const std::size_t first = static_cast<std::size_t>(r) * (in_rows ? kRowBytes : parts.bytes());
        for (int k = 1; k < size; ++k) {
          const int to = ranks[r].peer(k);
          if (in_rows)
            ranks[r].add_rows(to, first, all * kRowBytes, parts.of(r), kRowBytes, kMatrixRows);
          else
            add_part(ranks, parts, r, k);
        }
        if (in_rows)
          ranks[r].add_return_of_rows(first, all * kRowBytes, kRowBytes, kMatrixRows);
        else
          ranks[r].add_return(first, parts.bytes());
      }
      for (int r = 0; r < size; ++r) ranks[r].push();
      for (int r = 0; r < size; ++r)
        ASSERT_EQ(download(ranks[r].data(), parts.all().size()),
                  in_rows ? side_by_side(parts.all(), all, kRowBytes) : parts.all())
            << size << " ranks, rank " << r;
    }
  }
}

TEST(OneProcess, each_part_can_be_waited_for) {
  for (const int size : {2, 3, 4, 8}) {
    const Parts parts(size, 1021);
    Ranks ranks(size, parts.all().size());
    std::vector<std::unique_ptr<Memory>> seen;
    for (int r = 0; r < size; ++r) seen.push_back(std::make_unique<Memory>(parts.all().size()));
    for (int call = 0; call < 3; ++call) {
      for (int r = 0; r < size; ++r) ranks[r].tell_ready();
      for (int r = 0; r < size; ++r) ranks[r].await_ready();
      for (int k = 1; k <= size; ++k) {
        for (int r = 0; r < size; ++r) {
          add_part(ranks, parts, r, k);
          ranks[r].push_to(ranks[r].peer(k));
        }
      }
      for (int r = 0; r < size; ++r) {
        for (int k = 0; k < size; ++k) {
          const int from = (r - k + size) % size;
          const std::size_t first = static_cast<std::size_t>(from) * parts.bytes();
          ranks[r].await_part(from);
          SHARD8_CUDA_CHECK(cudaMemcpyAsync(seen[static_cast<std::size_t>(r)]->data() + first, ranks[r].data() + first,
                                            parts.bytes(), cudaMemcpyDeviceToDevice, ranks.stream(r)));
        }
      }
      for (int r = 0; r < size; ++r)
        EXPECT_EQ(download(seen[static_cast<std::size_t>(r)]->data(), parts.all().size()), parts.all())
            << size << " ranks, rank " << r;
    }
  }
}

TEST(OneProcess, a_part_does_not_wait_for_another_one) {
  constexpr std::size_t kBytes = 4096;
  Ranks ranks(3, 2 * kBytes);
  const Stream other;
  // Rank 2 is played by the host, which writes the words of its handshakes.
  const auto tell = [&](Handshake::Word word) {
    const std::uint32_t number = 1;
    for (int to = 0; to < 2; ++to) {
      std::byte* const words = ranks[to].data() + tensor::aligned(2 * kBytes);
      SHARD8_CUDA_CHECK(cudaMemcpyAsync(words + (word * 3 + 2) * sizeof number, &number, sizeof number,
                                        cudaMemcpyHostToDevice, other));
    }
    SHARD8_CUDA_CHECK(cudaStreamSynchronize(other));
  };
  const Memory part(kBytes);
  for (const int r : {0, 1}) ranks[r].tell_ready();
  for (const int r : {0, 1}) ranks[r].await_ready();
  ranks[0].push_to(1);
  ranks[0].push_to(2);
  ranks[1].push_to(2);
  ranks[1].add(0, 0, part.data(), kBytes);
  ranks[1].push_to(0);
  const Event part_of_1, part_of_2;
  ranks[0].await_part(1);
  part_of_1.record(ranks.stream(0));
  ranks[0].await_part(2);
  part_of_2.record(ranks.stream(0));
  ranks[1].await_part(0);
  ranks[1].await_part(2);
  tell(Handshake::ready);
  part_of_1.synchronize();
  EXPECT_FALSE(part_of_2.happened());
  tell(Handshake::done);
  part_of_2.synchronize();
  SHARD8_CUDA_CHECK(cudaDeviceSynchronize());
}

/// What the reader says of a call, once that is `expected`, or after 10 s.
std::string read_until(const peer::WordsReader& reader, const peer::CallWords& call, const std::string& expected) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  std::optional<std::string> late;
  do {
    late = reader.late_peers(call);
  } while (late != expected && std::chrono::steady_clock::now() < end);
  return late.value_or("nothing was read");
}

TEST(OneProcess, a_reader_names_the_rank_that_has_not_come) {
  const peer::WordsReader reader;
  Ranks ranks(3, 4096);
  for (int call = 0; call < 3; ++call) {
    const peer::CallWords words = ranks[0].next_call();
    ranks[0].push();
    ranks[2].push();
    const std::string absent = "rank 1 of the group has not come to it";
    EXPECT_EQ(read_until(reader, words, absent), absent);
    ranks[1].push();
    EXPECT_EQ(read_until(reader, words, ""), "");
  }
  SHARD8_CUDA_CHECK(cudaDeviceSynchronize());
}

TEST(OneProcess, a_reader_counts_the_pieces_that_have_arrived) {
  const peer::WordsReader reader;
  Ranks ranks(3, 4096);
  const auto push = [&](int rank, int piece) {
    for (const int k : {1, 2}) ranks[rank].push_to(ranks[rank].peer(k), piece);
  };
  for (int call = 0; call < 3; ++call) {
    for (int r = 0; r < 3; ++r) ranks[r].tell_ready();
    for (int r = 0; r < 3; ++r) ranks[r].await_ready();
    for (const int r : {0, 2}) push(r, 0);
    for (const int r : {0, 2}) push(r, 1);
    const peer::CallWords words = ranks[0].call_in_parts();
    push(1, 0);
    const std::string late = "rank 1 of the group has given 1 of 2 chunks";
    EXPECT_EQ(read_until(reader, words, late), late);
    push(1, 1);
    EXPECT_EQ(read_until(reader, words, ""), "");
    for (int r = 0; r < 3; ++r)
      for (const int k : {1, 2}) ranks[r].await_part(ranks[r].peer(k), 1);
  }
  SHARD8_CUDA_CHECK(cudaDeviceSynchronize());
}

TEST(OneProcess, a_reader_reads_nothing_of_memory_that_is_gone) {
  const peer::WordsReader reader;
  peer::CallWords call;
  EXPECT_FALSE(reader.late_peers(call).has_value());
  {
    Ranks ranks(2, 4096);
    call = ranks[0].next_call();
    EXPECT_TRUE(reader.late_peers(call).has_value());
  }
  EXPECT_FALSE(reader.late_peers(call).has_value());
}

TEST(OneProcess, kernels_gather_and_sum) {
  const int multiprocessors = tensor::cuda::describe_device(tensor::cuda::current_device()).multiprocessors;
  for (const int size : {2, 3, 4}) {
    const std::int64_t count = 40001;
    const Parts parts(size, count);
    const Memory scratch(parts.bytes());
    Ranks ranks(size, parts.all().size());
    const auto copies_to = [&](int rank) {
      ExchangeKernels::Destinations copies;
      for (int k = 0; k < size; ++k) copies.add(ranks[k].data() + static_cast<std::size_t>(rank) * parts.bytes());
      return copies;
    };
    const auto parts_of = [&](int rank) {
      peer::Parts of;
      for (int r = 0; r < size; ++r) of.add(ranks[rank].data() + static_cast<std::size_t>(r) * parts.bytes());
      return of;
    };
    // All blocks of all ranks must run at once.
    const auto kernels = [&](int rank) { return ExchangeKernels{ranks.stream(rank), multiprocessors / 2 / size}; };
    // CUDA loads a kernel at its first launch, and must not do so while another one waits.
    Handshake alone;
    Memory counter(sizeof(unsigned));
    alone.arrived = reinterpret_cast<unsigned*>(counter.data());
    kernels(0).copy(alone, {}, parts.of(0), parts.bytes(), copies_to(0));
    kernels(0).sum(alone, {}, scratch.data(), tensor::DType::fp32, count, parts_of(0));
    SHARD8_CUDA_CHECK(cudaDeviceSynchronize());

    for (int r = 0; r < size; ++r) kernels(r).copy(ranks[r].handshake(), {}, parts.of(r), parts.bytes(), copies_to(r));
    for (int r = 0; r < size; ++r)
      ASSERT_EQ(download(ranks[r].data(), parts.all().size()), parts.all()) << size << " ranks, rank " << r;

    std::vector<std::unique_ptr<Memory>> sums;  // allocated first: CUDA allocates nothing while a kernel waits
    for (int r = 0; r < size; ++r) sums.push_back(std::make_unique<Memory>(parts.bytes()));
    for (int r = 0; r < size; ++r) {
      kernels(r).sum(ranks[r].handshake(), {}, sums[static_cast<std::size_t>(r)]->data(), tensor::DType::fp32, count,
                     parts_of(r));
    }
    Buffer expected(tensor::Shape{count}, tensor::DType::fp32);
    for (std::int64_t i = 0; i < count; ++i) {
      float sum = value(0, i);
      for (int r = 1; r < size; ++r) sum += value(r, i);
      expected.set(i, sum);
    }
    for (int r = 0; r < size; ++r)
      EXPECT_EQ(download(sums[static_cast<std::size_t>(r)]->data(), parts.bytes()), expected.bytes())
          << size << " ranks, rank " << r;
  }
}

TEST(OneProcess, kernels_copy_rows_side_by_side) {
  const int multiprocessors = tensor::cuda::describe_device(tensor::cuda::current_device()).multiprocessors;
  for (const int size : {2, 3, 4}) {
    const auto all = static_cast<std::size_t>(size);
    // Rows of whole vectors of 16 bytes, and others.
    for (const auto& [rows, width] :
         {std::pair{kMatrixRows, kRowBytes}, {kMatrixRows * kRowBytes / 200, std::size_t{200}}}) {
      const Parts parts(size, 40000);
      Ranks ranks(size, parts.all().size());
      const auto copy = [&](const Handshake& handshake, int r) {
        ExchangeKernels::Destinations copies;
        for (int k = 0; k < size; ++k) copies.add(ranks[k].data() + static_cast<std::size_t>(r) * width);
        // All blocks of all ranks must run at once.
        ExchangeKernels{ranks.stream(r), multiprocessors / 2 / size}.copy_rows(handshake, parts.of(r), rows, width,
                                                                               all * width, copies);
      };
      // CUDA loads a kernel at its first launch, and must not do so while another one waits.
      Handshake alone;
      const Memory counter(sizeof(unsigned));
      alone.arrived = reinterpret_cast<unsigned*>(counter.data());
      copy(alone, 0);
      SHARD8_CUDA_CHECK(cudaDeviceSynchronize());
      for (int r = 0; r < size; ++r) copy(ranks[r].handshake(), r);
      for (int r = 0; r < size; ++r)
        ASSERT_EQ(download(ranks[r].data(), parts.all().size()), side_by_side(parts.all(), all, width))
            << size << " ranks, rank " << r << ", rows of " << width;
    }
  }
}

}  // namespace
}  // namespace shard8::comm::tests
