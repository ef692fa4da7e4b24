// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "model/expert_exchange.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <tuple>
#include <vector>

// One process plays all ranks of an expert group: rows are sent as each rank's rounds say, and must arrive where and in
// which order the header promises.

namespace shard8::model {
namespace {

using Row = std::tuple<std::int64_t, int, std::int64_t>;  ///< expert, sending rank, number among its rows of the expert

struct Group {
  ExpertDims dims;
  std::int64_t tokens = 0;
  std::vector<std::int32_t> counts;  ///< (ranks, experts)

  std::int64_t count(int rank, std::int64_t expert) const {
    return counts[static_cast<std::size_t>(rank * dims.experts + expert)];
  }
  /// The rows of a rank, sorted by expert.
  std::vector<Row> sorted(int rank) const {
    std::vector<Row> rows;
    for (std::int64_t e = 0; e < dims.experts; ++e)
      for (std::int64_t i = 0; i < count(rank, e); ++i) rows.emplace_back(e, rank, i);
    return rows;
  }
};

std::vector<Row> slice(const std::vector<Row>& rows, std::int64_t first, std::int64_t n) {
  return {rows.begin() + first, rows.begin() + first + n};
}

/// Plays all rounds. Returns for each rank the rows of its rounds, one round behind the other.
std::vector<std::vector<Row>> play(const Group& group, std::int64_t& rounds) {
  const int ranks = group.dims.ranks;
  std::vector<std::vector<Row>> received(static_cast<std::size_t>(ranks));
  std::vector<DispatchRounds> all;
  for (int rank = 0; rank < ranks; ++rank) {
    all.emplace_back(group.dims, group.tokens, rank);
    all.back().set(group.counts);
    EXPECT_EQ(all.back().rounds(), all.front().rounds()) << "rank " << rank;
  }
  rounds = all.front().rounds();
  for (std::int64_t k = 0; k < rounds; ++k) {
    std::map<std::pair<int, int>, std::vector<Row>> messages;
    for (int from = 0; from < ranks; ++from) {
      const auto round = all[static_cast<std::size_t>(from)].round(k);
      for (int to = 0; to < ranks; ++to) {
        const auto t = static_cast<std::size_t>(to);
        messages[{from, to}] = slice(group.sorted(from), round.send_first[t], round.send_rows[t]);
      }
    }
    for (int to = 0; to < ranks; ++to) {
      DispatchRounds& own = all[static_cast<std::size_t>(to)];
      std::vector<std::int32_t> arrival(static_cast<std::size_t>(group.dims.round_rows(group.tokens))), place = arrival;
      const auto tensor = [](std::vector<std::int32_t>& v) {
        return tensor::Tensor{reinterpret_cast<std::byte*>(v.data()), {std::ssize(v)}, tensor::DType::i32};
      };
      std::vector<std::int32_t> first(static_cast<std::size_t>(group.dims.local())), padded = first;
      const auto round = own.round(k, {tensor(first), tensor(padded)}, tensor(arrival), tensor(place));
      std::vector<Row> arrived;
      for (int from = 0; from < ranks; ++from) {
        const auto& message = messages[{from, to}];
        EXPECT_EQ(std::ssize(message), round.receive_rows[static_cast<std::size_t>(from)]);
        arrived.insert(arrived.end(), message.begin(), message.end());
      }
      EXPECT_EQ(std::ssize(arrived), round.received);
      EXPECT_LE(round.rows, group.dims.round_rows(group.tokens));
      EXPECT_GE(round.rows, round.received);
      auto& list = received[static_cast<std::size_t>(to)];
      std::int64_t end = 0;
      for (std::int64_t e = 0; e < group.dims.local(); ++e) {
        const auto at = static_cast<std::size_t>(e);
        const std::int64_t rows = round.expert_rows[at], multiple = group.dims.rows_multiple;
        EXPECT_EQ(round.expert_first[at], end);
        EXPECT_EQ(first[at], end);
        EXPECT_EQ(padded[at], (rows + multiple - 1) / multiple * multiple);
        end += padded[at];
        for (std::int64_t row = first[at]; row < end; ++row) {
          const std::int32_t from = arrival[static_cast<std::size_t>(row)];
          if (row >= first[at] + rows) {
            EXPECT_EQ(from, -1) << "row " << row << " is padding";
            continue;
          }
          list.push_back(arrived.at(static_cast<std::size_t>(from)));
          EXPECT_EQ(std::get<0>(list.back()), to * group.dims.local() + e);
          EXPECT_EQ(place[static_cast<std::size_t>(from)], row);
        }
      }
      EXPECT_EQ(round.rows, end);
      if (k + 1 < rounds) {
        EXPECT_LE(round.rows, group.dims.round_rows(group.tokens));
      }
    }
  }
  return received;
}

void expect_right(const Group& group) {
  std::int64_t rounds = 0;
  const auto received = play(group, rounds);
  EXPECT_LE(rounds, group.dims.most_rounds(group.tokens));
  for (int to = 0; to < group.dims.ranks; ++to) {
    std::vector<Row> want;
    for (std::int64_t e = to * group.dims.local(); e < (to + 1) * group.dims.local(); ++e)
      for (int from = 0; from < group.dims.ranks; ++from)
        for (std::int64_t i = 0; i < group.count(from, e); ++i) want.emplace_back(e, from, i);
    EXPECT_EQ(received[static_cast<std::size_t>(to)], want) << "rank " << to << " of " << group.dims.ranks;
  }
}

Group group_of(int ranks, std::int64_t local, std::int64_t per_token, std::int64_t tokens, double capacity) {
  Group group;
  group.dims.experts = ranks * local;
  group.dims.ranks = ranks;
  group.dims.per_token = std::min(per_token, group.dims.experts);
  group.dims.capacity = capacity;
  group.tokens = tokens;
  group.counts.resize(static_cast<std::size_t>(ranks * group.dims.experts));
  return group;
}

TEST(DispatchRounds, random_counts_arrive_once_and_in_order) {
  std::mt19937 random(44);
  const auto between = [&](int least, int most) { return std::uniform_int_distribution<int>(least, most)(random); };
  for (int trial = 0; trial < 1000; ++trial) {
    const int ranks = std::vector{1, 2, 3, 4, 8}[static_cast<std::size_t>(between(0, 4))];
    Group group = group_of(ranks, between(1, 5), between(1, 4), between(1, 12), between(0, 2) == 0 ? 1.0 : 1.7);
    group.dims.rows_multiple = std::vector{1, 1, 2, 16, 128}[static_cast<std::size_t>(between(0, 4))];
    const int favourite = between(0, static_cast<int>(group.dims.experts) - 1), share = between(0, 4);
    for (int rank = 0; rank < ranks; ++rank) {
      for (std::int64_t t = 0; t < group.tokens; ++t) {
        if (between(0, 9) == 0) continue;  // padding
        std::vector<std::int64_t> experts;
        while (std::ssize(experts) < group.dims.per_token) {
          const std::int64_t e =
              between(0, 4) < share ? favourite : between(0, static_cast<int>(group.dims.experts) - 1);
          const std::int64_t next = std::ranges::count(experts, e) == 0 ? e : (e + 1) % group.dims.experts;
          if (std::ranges::count(experts, next) == 0) experts.push_back(next);
        }
        for (const std::int64_t e : experts) ++group.counts[static_cast<std::size_t>(rank * group.dims.experts + e)];
      }
    }
    expect_right(group);
    if (HasFailure()) FAIL() << "trial " << trial;
  }
}

TEST(DispatchRounds, all_rows_for_one_rank_take_the_most_rounds) {
  Group group = group_of(4, 2, 2, 10, 1.5);
  for (int rank = 0; rank < 4; ++rank)
    for (const std::int64_t e : {4, 5}) group.counts[static_cast<std::size_t>(rank * 8 + e)] = 10;
  expect_right(group);
  DispatchRounds rounds(group.dims, 10, 2);
  rounds.set(group.counts);
  EXPECT_EQ(rounds.rounds(), group.dims.most_rounds(10));
  std::int64_t received = 0;
  for (std::int64_t k = 0; k < rounds.rounds(); ++k) received += rounds.round(k).received;
  EXPECT_EQ(received, 80);
}

TEST(DispatchRounds, rows_that_fill_rounds_with_padding_take_the_most_rounds) {
  Group group = group_of(2, 2, 2, 33, 1);
  group.dims.rows_multiple = 16;
  for (int rank = 0; rank < 2; ++rank)
    for (const std::int64_t e : {2, 3}) group.counts[static_cast<std::size_t>(rank * 4 + e)] = 33;
  EXPECT_EQ(group.dims.most_rows(33), 160);  // 2 · roundup(66)
  EXPECT_EQ(group.dims.round_rows(33), 96);  // roundup(66), and 30 / 16 · 16 for the padding of two experts
  expect_right(group);
  DispatchRounds rounds(group.dims, 33, 1);
  rounds.set(group.counts);
  EXPECT_EQ(rounds.rounds(), 2);
  EXPECT_EQ(rounds.rounds(), group.dims.most_rounds(33));
}

TEST(DispatchRounds, mean_rows_with_padding_fit_one_round) {
  for (const std::int64_t multiple : {16, 32, 128}) {
    Group group = group_of(4, 3, 2, 7, 1);
    group.dims.rows_multiple = multiple;
    DispatchRounds rounds(group.dims, 7, 3);
    rounds.set_mean();
    EXPECT_EQ(rounds.rounds(), 1);
    EXPECT_EQ(rounds.round(0).received, group.dims.mean_rows(7));
    EXPECT_EQ(rounds.round(0).rows, 3 * multiple);
  }
}

TEST(DispatchRounds, mean_rows_are_as_many_as_sent_in_one_round) {
  const Group group = group_of(4, 3, 2, 7, 1);
  for (int rank = 0; rank < 4; ++rank) {
    DispatchRounds rounds(group.dims, 7, rank);
    rounds.set_mean();
    const auto round = rounds.round(0);
    EXPECT_EQ(rounds.rounds(), 1);
    EXPECT_EQ(round.sent, group.dims.mean_rows(7));
    EXPECT_EQ(round.received, group.dims.mean_rows(7));
  }
}

TEST(DispatchRounds, at_the_worst_routing_the_first_rank_gets_what_it_can_get) {
  for (const int per_token : {2, 5}) {  // 5: more than the 3 experts of a rank
    const Group group = group_of(4, 3, per_token, 7, 4);
    for (int rank = 0; rank < 4; ++rank) {
      DispatchRounds rounds(group.dims, 7, rank);
      rounds.set_worst();
      EXPECT_EQ(rounds.rounds(), 1);
      const auto round = rounds.round(0);
      EXPECT_EQ(round.sent, group.dims.mean_rows(7));
      const std::int64_t left = 7 * std::max(0, per_token - 3);  // of a rank, over the experts of three others
      EXPECT_EQ(round.received, rank == 0 ? group.dims.most_rows(7) : 4 * (left * rank / 3 - left * (rank - 1) / 3))
          << per_token << " a token, rank " << rank;
    }
  }
}

TEST(DispatchRounds, no_rows_are_no_rounds) {
  const Group group = group_of(2, 2, 1, 5, 1);
  DispatchRounds rounds(group.dims, 5, 0);
  rounds.set(group.counts);
  EXPECT_EQ(rounds.rounds(), 0);
}

}  // namespace
}  // namespace shard8::model
