// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// Exchanges whose parts are used one by one, by messages, in memory that ranks share and round a ring, give the bytes
// of the collectives that they stand for. Only the sums of a ring have an order of their own.

#include <gtest/gtest.h>

#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "tensor/dtype.hpp"
#include "tests/comm/buffer.hpp"

namespace shard8::comm::tests {
namespace {

using tensor::DType;
using tensor::Tensor;

/// A group whose exchanges go by messages, cut into pieces, or in shared memory; how it waits; and which route they
/// take.
struct Way {
  bool window;
  Waiting waiting;
  Route route = Route::direct;

  Communicator group(profile::CollectiveLog* log = nullptr) const {
    return world(log, waiting, Limits{.message_bytes = 1000});
  }
  std::shared_ptr<PartsMemory> memory(const Communicator& group) const {
    if (!window) return nullptr;
    std::string problem;
    auto memory = group.parts_memory(kMemory, kMemory, &problem);
    EXPECT_EQ(memory == nullptr, group.size() == 1) << problem;
    return memory;
  }
  static constexpr std::size_t kMemory = std::size_t{1} << 20;
};
constexpr Way kWays[] = {{false, Waiting::yield},
                         {true, Waiting::yield},
                         {false, Waiting::spin},
                         {true, Waiting::spin},
                         {false, Waiting::yield, Route::ring},
                         {true, Waiting::yield, Route::ring},
                         {false, Waiting::spin, Route::ring}};

/// Whether ranks spin without a core of their own, so that an exchange takes the system's time slices: less is
/// exchanged.
bool crowded(Waiting waiting) { return waiting == Waiting::spin && world().size() > 2; }

/// Tensors to gather: own rows, and wholes of which one has the own rows already.
struct Input {
  Input(const Communicator& group, int salt) {
    const auto add = [&](std::int64_t rows, std::int64_t cols, DType dtype) {
      const auto more = static_cast<int>(own.size());
      own.emplace_back(tensor::Shape{rows, cols}, dtype).fill(group.rank(), salt + more);
      whole.emplace_back(tensor::Shape{rows * group.size(), cols}, dtype);
    };
    add(37, 96, DType::e4m3);
    add(37, 3, DType::e8m0);
    add(501, 5, DType::bf16);
    add(0, 7, DType::fp32);
    add(1003, 3, DType::fp32);
    const Tensor place = whole.back().tensor().slice(group.rank() * 1003, 1003);
    std::memcpy(place.data, own.back().bytes().data(), place.bytes());
  }
  std::vector<Tensor> owns() {
    std::vector<Tensor> tensors;
    for (Buffer& buffer : own) tensors.push_back(buffer.tensor());
    return tensors;
  }
  std::vector<Tensor> wholes() {
    std::vector<Tensor> tensors;
    for (Buffer& buffer : whole) tensors.push_back(buffer.tensor());
    return tensors;
  }
  std::vector<Buffer> own, whole;
};

std::vector<std::byte> bytes_of(const Tensor& t) { return {t.data, t.data + t.bytes()}; }

/// What all_gather_in_place brings.
Input gathered(const Communicator& group, const Input& input) {
  Input plain = input;
  group.all_gather_in_place(plain.wholes(), plain.owns()).wait();
  return plain;
}

/// The parts are the rows that all_gather_in_place brings.
void expect_parts(const GatherParts& parts, Input& input, Input& plain, int rank) {
  for (std::size_t i = 0; i < input.own.size(); ++i) {
    const std::int64_t rows = input.own[i].tensor().rows();
    const Tensor part = parts.part(i, rank);
    EXPECT_EQ(part.shape, input.own[i].tensor().shape);
    EXPECT_EQ(part.dtype, input.own[i].dtype());
    EXPECT_EQ(bytes_of(part), bytes_of(plain.whole[i].tensor().slice(rank * rows, rows)))
        << "tensor " << i << " of rank " << rank;
  }
}

TEST(GatherParts, are_the_rows_of_an_all_gather) {
  for (const Way& way : kWays) {
    const Communicator group = way.group();
    const auto memory = way.memory(group);
    for (int round = 0; round < 2; ++round) {
      Input input(group, 10 * round);
      GatherParts parts = group.all_gather_parts(input.wholes(), input.owns(), "fc1_fprop", way.route);
      EXPECT_EQ(parts.arrival(0), group.rank());
      Input plain = gathered(group, input);  // another collective while the exchange is under way
      for (int k = 0; k < group.size(); ++k) {
        const int rank = round % 2 == 0 ? parts.arrival(k) : k;
        parts.await(rank);
        expect_parts(parts, input, plain, rank);
      }
      parts.finish();
      EXPECT_FALSE(parts.active());
      if (memory == nullptr || way.route == Route::ring) {
        for (std::size_t i = 0; i < input.own.size(); ++i)
          EXPECT_EQ(input.whole[i].bytes(), plain_all_gather(input.own[i].bytes(), group.size()));
      }
    }
  }
}

TEST(GatherParts, of_two_exchanges_at_once_end_in_any_order) {
  for (const Way& way : kWays) {
    const Communicator group = way.group();
    const auto memory = way.memory(group);
    for (int round = 0; round < (crowded(way.waiting) ? 2 : 6); ++round) {
      Input one(group, 100 + round), two(group, 200 + round);
      GatherParts first = group.all_gather_parts(one.wholes(), one.owns(), "qkv_fprop", way.route);
      GatherParts second = group.all_gather_parts(two.wholes(), two.owns(), "fc1_fprop", way.route);
      if (round % 2 == 1) std::swap(first, second);
      Input& of_first = round % 2 == 1 ? two : one;
      Input& of_second = round % 2 == 1 ? one : two;
      Input plain_first = gathered(group, of_first);
      for (int rank = 0; rank < group.size(); ++rank) {
        first.await(rank);
        expect_parts(first, of_first, plain_first, rank);
      }
      if (round % 3 != 0) first.finish();
      Input plain_second = gathered(group, of_second);
      for (int rank = 0; rank < group.size(); ++rank) {
        second.await(rank);
        expect_parts(second, of_second, plain_second, rank);
      }
    }  // destroyed: finished
  }
}

TEST(GatherParts, need_no_whole_in_shared_memory) {
  const Communicator group = world();
  const auto memory = group.parts_memory(4096, 0);
  if (memory == nullptr) return;
  Buffer own({100, 2}, DType::bf16);
  own.fill(group.rank());
  const Tensor whole{nullptr, {100 * group.size(), 2}, DType::bf16};
  GatherParts parts = group.all_gather_parts({&whole, 1}, std::vector{own.tensor()}, "fc1_fprop");
  for (int rank = 0; rank < group.size(); ++rank) {
    parts.await(rank);
    Buffer expected({100, 2}, DType::bf16);
    expected.fill(rank);
    EXPECT_EQ(bytes_of(parts.part(0, rank)), expected.bytes());
  }
}

struct Sum {
  Sum(const Communicator& group, std::int64_t rows, DType dtype, int salt)
      : whole({rows * group.size(), 3}, dtype), out({rows, 3}, dtype), addend({rows, 3}, dtype) {
    whole.fill(group.rank(), salt);
    addend.fill(group.rank(), salt + 1);
  }
  Communicator::ReduceScatterItem item(bool adds) {
    return {out.tensor(), whole.tensor(), adds ? addend.tensor() : Tensor{}};
  }
  Buffer whole, out, addend;
};

/// Writes and gives the rows of one rank after the other.
void give_all(const Communicator& group, ScatterParts& parts, const Buffer& partial_sums, bool backwards) {
  const Tensor whole = parts.whole();
  ASSERT_EQ(whole.bytes(), partial_sums.bytes().size());
  const std::size_t rows = whole.bytes() / static_cast<std::size_t>(group.size());
  for (int k = 1; k <= group.size(); ++k) {
    const int rank = parts.destination(backwards ? group.size() + 1 - k : k);
    const std::size_t first = static_cast<std::size_t>(rank) * rows;
    if (rows > 0) std::memcpy(whole.data + first, partial_sums.bytes().data() + first, rows);
    parts.give(rank);
    group.progress();
  }
}

/// The sum of a ring, and of a reduce-scatter of two ranks: the rows of rank r − 1, r − 2, …, r, then the addend.
void expect_sum_of_ring(const Communicator& group, const Sum& sum, const Tensor& out, int salt, bool adds) {
  const int n = group.size();
  const std::int64_t count = out.count(), first = group.rank() * count;
  Buffer of_rank = sum.whole, expected = sum.out;
  std::vector<float> total(static_cast<std::size_t>(count));
  for (int k = 1; k <= n; ++k) {
    of_rank.fill((group.rank() - k + n) % n, salt);
    for (std::int64_t i = 0; i < count; ++i) {
      float& t = total[static_cast<std::size_t>(i)];
      t = k == 1 ? of_rank.get(first + i) : t + of_rank.get(first + i);
    }
  }
  of_rank.fill(group.rank(), salt + 1);  // the addend
  for (std::int64_t i = 0; i < count; ++i)
    expected.set(i, total[static_cast<std::size_t>(i)] + (adds ? of_rank.get(i) : 0));
  EXPECT_EQ(bytes_of(out), expected.bytes()) << count << " elements of " << name_of(out.dtype);
}

/// Rows to sum. The most need nearly all the shared memory.
constexpr std::int64_t kRows[] = {0, 1, 7, 1000, 20000};

/// Whether a sum is left out: the most rows are summed without an addend in FP32 and with one in BF16, and not at
/// all where ranks are crowded.
bool left_out(std::int64_t rows, DType dtype, bool adds, Waiting waiting) {
  return rows == std::end(kRows)[-1] && (adds == (dtype == DType::fp32) || crowded(waiting));
}

TEST(ScatterParts, of_a_ring_are_summed_in_its_order) {
  for (const Waiting waiting : {Waiting::yield, Waiting::spin}) {
    const Communicator group = world(nullptr, waiting, Limits{.message_bytes = 1000}), of_plain = world();
    std::size_t largest = 0;
    int salt = 0;
    for (const DType dtype : {DType::fp32, DType::bf16}) {
      for (const std::int64_t rows : kRows) {
        for (const bool adds : {false, true}) {
          if (adds && group.size() == 1) continue;
          if (left_out(rows, dtype, adds, waiting)) continue;
          Sum plain(group, rows, dtype, ++salt), sum(group, rows, dtype, salt);
          of_plain.reduce_scatter(plain.out.tensor(), plain.whole.tensor(), plain.item(adds).addend);
          auto item = sum.item(adds);
          if (rows == 7) item.out = adds ? item.addend : item.whole.slice(group.rank() * rows, rows);
          ScatterParts parts = group.reduce_scatter_parts(item, "fc2_fprop", Route::ring);
          give_all(group, parts, Buffer(sum.whole), salt % 2 == 0);
          parts.finish();
          expect_sum_of_ring(group, sum, item.out, salt, adds);
          if (group.size() <= 2) {
            EXPECT_EQ(bytes_of(item.out), plain.out.bytes()) << rows << " rows";
          }
          largest = std::max(largest, Communicator::ring_scratch_bytes(sum.whole.bytes().size(), group.size(), dtype));
        }
      }
    }
    EXPECT_EQ(group.scratch_bytes(), largest);
  }
}

TEST(ScatterParts, sum_to_the_bytes_of_a_reduce_scatter) {
  for (const Way& way : kWays) {
    if (way.route == Route::ring) continue;
    const Communicator group = way.group();
    const auto memory = way.memory(group);
    int salt = 0;
    for (const DType dtype : {DType::fp32, DType::bf16}) {
      for (const std::int64_t rows : kRows) {
        for (const bool adds : {false, true}) {
          if (adds && group.size() == 1) continue;
          if (left_out(rows, dtype, adds, way.waiting)) continue;
          Sum plain(group, rows, dtype, ++salt), sum(group, rows, dtype, salt);
          const Buffer partial_sums = sum.whole;
          group.reduce_scatter(plain.out.tensor(), plain.whole.tensor(), plain.item(adds).addend);
          auto item = sum.item(adds);
          if (rows == 7) item.out = adds ? item.addend : item.whole.slice(group.rank() * rows, rows);
          ScatterParts parts = group.reduce_scatter_parts(item, "fc2_fprop");
          give_all(group, parts, partial_sums, salt % 2 == 0);
          parts.finish();
          EXPECT_EQ(bytes_of(item.out), plain.out.bytes()) << rows << " rows of " << name_of(dtype);
        }
      }
    }
  }
}

TEST(ScatterParts, are_recorded_with_gathers_as_the_collectives_are) {
  for (const Way& way : kWays) {
    profile::CollectiveLog expected, found;
    const auto exchange = [&](profile::CollectiveLog& log, bool in_parts) {
      std::vector<std::string> issued;
      log.set_watcher({[&](const auto& key) { issued.push_back(std::string(name_of(key.op)) + key.dtype); }, {}});
      const Communicator group = way.group(&log);
      const auto memory = way.memory(group);
      Input input(group, 1);
      Sum sum(group, 100, DType::bf16, 2);
      if (in_parts) {
        GatherParts gather = group.all_gather_parts(input.wholes(), input.owns(), "fc1_fprop", way.route);
        ScatterParts scatter = group.reduce_scatter_parts(sum.item(false), "fc2_fprop", way.route);
        give_all(group, scatter, Buffer(sum.whole), false);
      } else {
        group.all_gather_in_place(input.wholes(), input.owns()).wait();
        group.reduce_scatter(sum.out.tensor(), sum.whole.tensor());
      }
      log.set_watcher({});
      return issued;
    };
    EXPECT_EQ(exchange(expected, false), exchange(found, true));
    ASSERT_EQ(expected.entries().size(), found.entries().size());
    for (const auto& [key, stats] : expected.entries()) {
      ASSERT_TRUE(found.entries().contains(key)) << key.dtype;
      EXPECT_EQ(found.entries().at(key).calls, stats.calls);
      EXPECT_GE(found.entries().at(key).total_s, 0);
    }
  }
}

TEST(ScatterParts, misused_are_errors) {
  const Communicator group = world();
  if (group.size() == 1) return;
  for (const Way& way : kWays) {
    const bool window = way.window && way.route == Route::direct;
    const auto memory = way.window ? group.parts_memory(4096, 4096) : nullptr;
    Sum sum(group, 10, DType::fp32, 1);
    ScatterParts parts = group.reduce_scatter_parts(sum.item(false), "fc2_fprop", way.route);
    if (window) {
      EXPECT_THROW(parts.give((group.rank() + 1) % group.size()), base::Error);  // before whole()
    }
    give_all(group, parts, Buffer(sum.whole), false);
    EXPECT_THROW(parts.give(0), base::Error);
    EXPECT_THROW(parts.give(group.size()), base::Error);
    parts.finish();
    EXPECT_THROW(parts.give(0), base::Error);
    EXPECT_THROW(parts.finish(), base::Error);
    Sum large(group, 4096, DType::fp32, 1);
    if (window) {
      EXPECT_THROW(static_cast<void>(group.reduce_scatter_parts(large.item(false), "x")), base::Error);
    }
    EXPECT_THROW(static_cast<void>(group.reduce_scatter_parts({sum.out.tensor(), large.whole.tensor()}, "x")),
                 base::Error);
  }
}

TEST(GatherParts, misused_are_errors) {
  const Communicator group = world();
  if (group.size() == 1) return;
  const auto memory = group.parts_memory(4096, 4096);
  Buffer own({8}, DType::fp32), whole({8 * group.size()}, DType::fp32), large({4096}, DType::fp32);
  const auto gather = [&] {
    return group.all_gather_parts(std::vector{whole.tensor()}, std::vector{own.tensor()}, "x");
  };
  GatherParts one = gather(), two = gather();
  EXPECT_THROW(static_cast<void>(gather()), base::Error);  // a third
  EXPECT_THROW(one.await(-1), base::Error);
  EXPECT_THROW(one.await(group.size()), base::Error);
  one.finish();
  EXPECT_THROW(one.await(0), base::Error);
  EXPECT_THROW(static_cast<void>(one.part(0, 0)), base::Error);
  two.finish();
  Buffer too_large({4096 * group.size()}, DType::fp32);
  EXPECT_THROW(
      static_cast<void>(group.all_gather_parts(std::vector{too_large.tensor()}, std::vector{large.tensor()}, "x")),
      base::Error);
  EXPECT_THROW(static_cast<void>(group.all_gather_parts(std::vector{whole.tensor()}, {}, "x")), base::Error);
  gather().finish();
}

}  // namespace
}  // namespace shard8::comm::tests
