// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <deque>

#include "base/error.hpp"
#include "model/expert_exchange.hpp"
#include "tests/kernels/moe_group.hpp"
#include "tests/support/compare.hpp"

namespace shard8::tests {
namespace {

constexpr std::uint8_t kPoison = 0xff;  ///< of floats: NaN

std::int64_t rounded_up(std::int64_t n, std::int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

/// The rows of a round in one rank's memory, and the bytes that they must have.
class Expected {
 public:
  Expected(std::int64_t rows, std::int64_t bytes) : width_(bytes), bytes_(at(rows * bytes), kPoison) {}
  void put(std::int64_t row, const RawBytes& from, std::int64_t from_row) {
    std::copy_n(from.begin() + from_row * width_, width_, bytes_.begin() + row * width_);
  }
  void zero(std::int64_t row) { std::fill_n(bytes_.begin() + row * width_, width_, std::uint8_t{0}); }
  const RawBytes& get() const { return bytes_; }

 private:
  std::int64_t width_;
  RawBytes bytes_;
};

/// Rows and numbers in memory of one rank, into which all ranks write.
struct Rows {
  Rows(std::int64_t n, std::int64_t hidden, DType dtype) : rows({n, hidden}, dtype), numbers({n}, DType::fp32) {}
  void poison() const {
    for (const Tensor& t : {rows.tensor(), numbers.tensor()}) store(bytes_of(t), RawBytes(t.bytes(), kPoison));
  }
  void expect(const Expected& want_rows, const Expected& want_numbers) const {
    EXPECT_EQ(stored<std::uint8_t>(bytes_of(rows)), want_rows.get());
    EXPECT_EQ(stored<std::uint8_t>(bytes_of(numbers)), want_numbers.get());
  }
  Buffer rows, numbers;
};

RawBytes random_bytes(const Tensor& t, std::mt19937_64& engine) {
  RawBytes bytes(t.bytes());
  for (auto& b : bytes) b = static_cast<std::uint8_t>(engine());
  store(bytes_of(t), bytes);
  return bytes;
}

struct Addresses {
  kernels::RankAddresses rows, numbers;
  explicit Addresses(const std::deque<Rows>& all) {
    for (std::size_t r = 0; r < all.size(); ++r) {
      rows.of[r] = all[r].rows.tensor().data;
      numbers.of[r] = all[r].numbers.tensor().data;
    }
  }
};

struct Payload {
  std::int64_t hidden;
  DType dtype;
  bool numbered = true;
};

/// The ranks of a group, their tokens, and the memory into which they write.
class Players {
 public:
  Players(const MoeGroup& group, std::int64_t round_rows, std::int64_t multiple, std::int64_t rounds,
          const Payload& payload, std::mt19937_64& engine)
      : group_(group), round_rows_(round_rows), multiple_(multiple), payload_(payload), engine_(engine()) {
    for (int rank = 0; rank < group.ranks; ++rank) {
      dispatch_.emplace_back(group, rank, round_rows, multiple, rounds);
      tokens_.emplace_back(Shape{group.tokens, payload.hidden}, payload.dtype);
      values_.emplace_back(Shape{payload.numbered ? group.pairs() : 0}, DType::fp32);
      token_bytes_.push_back(random_bytes(tokens_.back(), engine));
      value_bytes_.push_back(random_bytes(values_.back(), engine));
      Doubles sorted(group.source[at(rank)].begin(), group.source[at(rank)].end());
      sorted.resize(at(group.pairs()), -1e9);  // never read
      source_.emplace_back(Shape{group.pairs()}, DType::i32, sorted);
      received_.emplace_back(round_rows, payload.hidden, payload.dtype);
      returned_.emplace_back(group.pairs(), payload.hidden, payload.dtype);
      returned_.back().poison();
    }
  }
  std::size_t width() const { return at(payload_.hidden) * size_of(payload_.dtype); }

  /// Each round goes in parts that are drawn. All ranks have the same ones.
  void play(const Exec& exec) {
    for (const auto& own : dispatch_) kernels::moe_rounds(exec, own.dispatch);
    const std::int64_t rounds = dispatch_.front().dispatch.rounds();
    for (std::int64_t k = 0; k < rounds; ++k) {
      SCOPED_TRACE(::testing::Message() << "round " << k << " of " << rounds);
      for (const Rows& rows : received_) rows.poison();
      for (const auto& part : draw_parts(k)) send(exec, part);
      zero_padding(exec, k);
      for (int rank = 0; rank < group_.ranks; ++rank) expect_received(rank, k);
      for (const auto& part : draw_parts(k)) send_back(exec, part);
    }
    for (int rank = 0; rank < group_.ranks; ++rank) expect_returned(rank);
  }

 private:
  /// All experts of a rank, cut at some places, in any order. Some parts have no expert.
  std::vector<kernels::DispatchPart> draw_parts(std::int64_t round) {
    std::vector<kernels::DispatchPart> parts;
    std::int64_t first = 0;
    const auto add = [&](std::int64_t experts) {
      parts.push_back({round, first, experts, static_cast<int>(engine_() % 4)});
      first += experts;
    };
    if (engine_() % 2 == 0)
      while (first < group_.local() && parts.size() < 5)
        add(static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(group_.local() - first + 1)));
    add(group_.local() - first);
    std::ranges::shuffle(parts, engine_);
    return parts;
  }
  void send(const Exec& exec, const kernels::DispatchPart& part) const {
    const Addresses to(received_);
    for (std::size_t r = 0; r < dispatch_.size(); ++r)
      kernels::moe_push_rows(exec, to.rows, to.numbers, dispatch_[r].dispatch, part, tokens_[r], source_[r],
                             values_[r]);
  }
  void zero_padding(const Exec& exec, std::int64_t k) const {
    for (std::size_t r = 0; r < dispatch_.size(); ++r) {
      const Tensor none, numbers = received_[r].numbers;
      kernels::moe_zero_padding(exec, received_[r].rows, payload_.numbered ? numbers : none, dispatch_[r].dispatch, k);
    }
  }
  void send_back(const Exec& exec, const kernels::DispatchPart& part) const {
    const Addresses to(returned_);
    for (std::size_t r = 0; r < dispatch_.size(); ++r) {
      const Tensor none, numbers = received_[r].numbers;
      kernels::moe_push_results(exec, to.rows, to.numbers, dispatch_[r].dispatch, part, received_[r].rows,
                                payload_.numbered ? numbers : none);
    }
  }
  /// The row of a token that a sorted row has, and its number.
  void put(Expected& rows, Expected& numbers, std::int64_t row, int from, std::int64_t sorted) const {
    const std::int64_t pair = group_.source[at(from)][at(sorted)];
    rows.put(row, token_bytes_[at(from)], pair / group_.per_token);
    if (payload_.numbered) numbers.put(row, value_bytes_[at(from)], pair);
  }
  void expect_received(int rank, std::int64_t k) const {
    SCOPED_TRACE(::testing::Message() << "rank " << rank << " of " << group_.ranks);
    const auto order = group_.received(rank, multiple_);
    Expected rows(round_rows_, static_cast<std::int64_t>(width())), numbers(round_rows_, 4);
    std::int64_t end = 0;
    for (; end < round_rows_ && k * round_rows_ + end < static_cast<std::int64_t>(order.size()); ++end) {
      const MoeGroup::Row& row = order[at(k * round_rows_ + end)];
      if (row.from >= 0) {
        put(rows, numbers, end, row.from, row.row);
      } else {
        rows.zero(end);
        if (payload_.numbered) numbers.zero(end);
      }
    }
    received_[at(rank)].expect(rows, numbers);
    const auto& own = dispatch_[at(rank)];
    EXPECT_EQ(stored<std::int32_t>(own.end)[at(k)], end);
    const auto first = stored<std::int32_t>(own.first), count = stored<std::int32_t>(own.rows);
    const auto in_round = [&](std::int64_t row) {
      return std::clamp<std::int64_t>(row - k * round_rows_, 0, round_rows_);
    };
    std::int64_t begin = 0;  // of the expert in the order
    for (std::int64_t e = 0; e < group_.local(); ++e) {
      std::int64_t n = 0;
      for (int from = 0; from < group_.ranks; ++from) n += group_.count(from, rank * group_.local() + e);
      const std::int64_t next = begin + rounded_up(n, multiple_);
      EXPECT_EQ(first[at(k * group_.local() + e)], in_round(begin));
      EXPECT_EQ(count[at(k * group_.local() + e)], in_round(next) - in_round(begin));
      begin = next;
    }
  }
  void expect_returned(int rank) const {
    SCOPED_TRACE(::testing::Message() << "returned to rank " << rank << " of " << group_.ranks);
    Expected rows(group_.pairs(), static_cast<std::int64_t>(width())), numbers(group_.pairs(), 4);
    for (std::int64_t p = 0; p < group_.sorted_rows(rank); ++p) put(rows, numbers, p, rank, p);
    returned_[at(rank)].expect(rows, numbers);
  }

  const MoeGroup& group_;
  std::int64_t round_rows_, multiple_;
  Payload payload_;
  std::mt19937_64 engine_;
  std::deque<MoeDispatchBuffers> dispatch_;
  std::deque<Buffer> tokens_, values_, source_;
  std::vector<RawBytes> token_bytes_, value_bytes_;
  std::deque<Rows> received_, returned_;
};

constexpr std::int64_t kMultiples[] = {1, 16, 32, 128};

/// Plays the group with rounds of about 1/parts of the most rows, and one round more than needed.
void play(const Exec& exec, const MoeGroup& group, std::int64_t parts, std::int64_t multiple, const Payload& payload,
          std::mt19937_64& engine) {
  const std::int64_t most = group.most_received(multiple);
  const std::int64_t rows = rounded_up(std::max<std::int64_t>(1, (most + parts - 1) / parts), multiple);
  Players(group, rows, multiple, most / rows + 2, payload, engine).play(exec);
}

TEST(MoeDispatch, RandomRowsArriveAndReturn) {
  const auto execs = exec_widths();
  const Payload payloads[] = {{1, DType::e4m3},  {7, DType::bf16},         {16, DType::bf16}, {4, DType::fp32},
                              {48, DType::e5m2}, {40, DType::bf16, false}, {5, DType::fp32},  {33, DType::u8, false}};
  std::mt19937_64 engine(1);
  for (std::size_t n = 0; n < 1000; ++n) {
    const auto draw = [&](std::int64_t least, std::int64_t most) {
      return least + static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(most - least + 1));
    };
    const int ranks = n % 16 == 0 ? 1 : 2 << n % 3;
    const std::int64_t experts = ranks * draw(1, 5), per_token = draw(1, std::min<std::int64_t>(experts, 4));
    const std::int64_t tokens = draw(0, 12), popular = draw(per_token, experts);
    const auto group = MoeGroup::random(ranks, experts, tokens, per_token, draw(0, experts - 1), popular, engine);
    const std::int64_t parts = draw(1, 4), multiple = kMultiples[n / 2 % 4];
    SCOPED_TRACE(::testing::Message() << "number " << n << ", " << ranks << " ranks, " << per_token << " of " << experts
                                      << ", tokens " << tokens << ", multiple " << multiple);
    play(execs[n % execs.size()], group, parts, multiple, payloads[draw(0, 7)], engine);
    if (::testing::Test::HasFailure()) return;
  }
}

/// Rows as long as those of models, more rows than a device's multiprocessors take at once.
TEST(MoeDispatch, LongRowsArriveAndReturn) {
  std::mt19937_64 engine(2);
  const auto group = MoeGroup::random(2, 16, 1500, 2, 3, 16, engine);
  for (const auto& payload : {Payload{1024, DType::bf16}, Payload{2056, DType::u8}, Payload{520, DType::fp32}})
    play(Exec(), group, 2, 128, payload, engine);
}

TEST(MoeDispatch, OneRankGetsAll) {
  std::mt19937_64 engine(3);
  for (const std::int64_t multiple : kMultiples) {
    const auto one_rank = MoeGroup::random(4, 12, 40, 3, 6, 3, engine);
    for (std::int64_t e = 0; e < 12; ++e) EXPECT_EQ(one_rank.count(1, e) > 0, e >= 6 && e < 9);
    play(Exec(), one_rank, 3, multiple, {24, DType::bf16}, engine);
    play(Exec(), MoeGroup::random(4, 12, 40, 1, 11, 1, engine), 3, multiple, {24, DType::bf16}, engine);
  }
}

TEST(MoeDispatch, NoTokens) {
  std::mt19937_64 engine(4);
  for (const std::int64_t multiple : kMultiples)
    play(Exec(), MoeGroup::random(4, 8, 0, 2, 0, 8, engine), 1, multiple, {24, DType::bf16}, engine);
}

/// The rows that DispatchRounds gives to a rank in a round: those of all messages, sorted by expert.
std::vector<MoeGroup::Row> rows_by_messages(const MoeGroup& group, std::deque<model::DispatchRounds>& all, int rank,
                                            std::int64_t k) {
  std::vector<MoeGroup::Row> rows;
  for (int from = 0; from < group.ranks; ++from) {
    const auto round = all[at(from)].round(k);
    for (std::int64_t i = 0; i < round.send_rows[at(rank)]; ++i) rows.push_back({from, round.send_first[at(rank)] + i});
  }
  const auto expert_of = [&](const MoeGroup::Row& row) {
    std::int64_t expert = 0;
    for (std::int64_t end = group.count(row.from, 0); end <= row.row; end += group.count(row.from, expert)) ++expert;
    return expert;
  };
  std::ranges::stable_sort(rows, {}, expert_of);
  return rows;
}

TEST(MoeDispatchRounds, EqualThoseOfTheHost) {
  std::mt19937_64 engine(5);
  for (int n = 0; n < 100; ++n) {
    const int ranks = 1 << n % 4;
    const auto tokens = static_cast<std::int64_t>(engine() % 30);
    const auto popular = 2 + static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(3 * ranks - 1));
    const auto group = MoeGroup::random(ranks, 3 * ranks, tokens, 2, n, popular, engine);
    model::ExpertDims dims;
    dims.experts = group.experts;
    dims.per_token = group.per_token;
    dims.ranks = ranks;
    dims.capacity = 0.3 + 0.2 * (n % 5);
    std::deque<model::DispatchRounds> all;
    for (int rank = 0; rank < ranks; ++rank) all.emplace_back(dims, tokens, rank).set(group.counts);
    const std::int64_t rounds = dims.most_rounds(tokens), r = dims.round_rows(tokens);
    SCOPED_TRACE(::testing::Message() << "number " << n << ", " << ranks << " ranks, rounds of " << r << " rows");
    for (int rank = 0; rank < ranks; ++rank) {
      const MoeDispatchBuffers own(group, rank, r, 1, rounds);
      kernels::moe_rounds(Exec(), own.dispatch);
      const auto order = group.received(rank, 1);
      const auto first = stored<std::int32_t>(own.first), rows = stored<std::int32_t>(own.rows);
      for (std::int64_t k = 0; k < rounds; ++k) {
        const auto want = rows_by_messages(group, all, rank, k);
        const auto begin = order.begin() + std::min(k * r, static_cast<std::int64_t>(order.size()));
        EXPECT_TRUE(std::equal(want.begin(), want.end(), begin, begin + static_cast<std::int64_t>(want.size())));
        const auto round = all[at(rank)].round(k);
        EXPECT_EQ(stored<std::int32_t>(own.end)[at(k)], round.received);
        for (std::int64_t e = 0; e < group.local(); ++e) {
          EXPECT_EQ(first[at(k * group.local() + e)], round.expert_first[at(e)]);
          EXPECT_EQ(rows[at(k * group.local() + e)], round.expert_rows[at(e)]);
        }
      }
    }
  }
}

TEST(MoeDispatchErrors, SaysWhatDoesNotFit) {
  std::mt19937_64 engine(6);
  const auto group = MoeGroup::random(2, 4, 3, 2, 0, 4, engine);
  const MoeDispatchBuffers own(group, 0, 16, 16, 2);
  const Buffer tokens({3, 8}, DType::bf16), source({6}, DType::i32), rows({16, 8}, DType::bf16);
  const Buffer numbers({15}, DType::fp32);
  const auto with = [&](auto change) {
    kernels::MoeDispatch dispatch = own.dispatch;
    change(dispatch);
    return dispatch;
  };
  const auto rounds = [](const kernels::MoeDispatch& dispatch) { kernels::moe_rounds(Exec(), dispatch); };
  EXPECT_THROW(rounds(with([](auto& d) { d.multiple = 8; })), base::Error);
  EXPECT_THROW(rounds(with([](auto& d) { d.multiple = 32; })), base::Error);
  EXPECT_THROW(rounds(with([](auto& d) { d.rank = 2; })), base::Error);
  EXPECT_THROW(rounds(with([](auto& d) { d.counts.shape = {3, 4}; })), base::Error);
  EXPECT_THROW(rounds(with([](auto& d) { d.counts.shape = {17, 34}; })), base::Error);
  EXPECT_THROW(rounds(with([](auto& d) { d.table.shape = {3}; })), base::Error);
  const auto push = [&](const kernels::DispatchPart& part, const Buffer& of_pairs) {
    kernels::moe_push_rows(Exec(), {}, {}, own.dispatch, part, tokens, of_pairs, {});
  };
  EXPECT_THROW(push({.round = 2, .experts = 2}, source), base::Error);
  EXPECT_THROW(push({.first = 1, .experts = 2}, source), base::Error);
  EXPECT_THROW(push({.first = -1, .experts = 2}, source), base::Error);
  EXPECT_THROW(push({.experts = 2, .multiprocessors = -1}, source), base::Error);
  EXPECT_THROW(push({.experts = 2}, numbers), base::Error);
  EXPECT_THROW(kernels::moe_push_results(Exec(), {}, {}, own.dispatch, {.experts = 2}, tokens, {}), base::Error);
  EXPECT_THROW(kernels::moe_zero_padding(Exec(), rows, numbers, own.dispatch, 0), base::Error);
}

}  // namespace
}  // namespace shard8::tests
