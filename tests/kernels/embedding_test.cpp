// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/vocabulary.hpp"

#include <gtest/gtest.h>

#include "tests/kernels/buffer.hpp"
#include "tests/support/compare.hpp"

namespace shard8::tests {
namespace {

using Doubles = std::vector<double>;

struct Case {
  std::int64_t tokens, rows, valid, first, vocab, hidden;
};
/// Whole vocabularies, a middle part, a last part with padding rows, a part of padding alone; few rows for many tokens;
/// whole packs; many tokens of some rows and few of others; and more blocks of rows with many tokens than a device has
/// teams for.
const std::vector<Case> kCases{
    {1, 1, 1, 0, 1, 1},
    {50, 11, 11, 0, 11, 7},
    {300, 40, 40, 20, 97, 65},
    {200, 25, 22, 75, 97, 130},
    {9, 4, 0, 12, 12, 5},
    {2500, 5, 5, 0, 5, 40},
    {150, 60, 60, 0, 60, 520},
    {60, 3, 3, 0, 3, 2200},
    {9000, 1000, 1000, 0, 1000, 24},
    {5400, 400, 400, 0, 400, 2056},
};

Buffer draw_tokens(const Case& c, unsigned seed) {
  std::mt19937_64 engine(seed);
  Doubles tokens(static_cast<std::size_t>(c.tokens));
  for (auto& t : tokens) t = static_cast<double>(engine() % static_cast<std::uint64_t>(c.vocab));
  return {{c.tokens}, DType::i32, tokens};
}
std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

class Embedding : public ::testing::TestWithParam<DType> {
 protected:
  Exec exec_;
  DType dtype_ = GetParam();
};

TEST_P(Embedding, ForwardCopiesOwnRows) {
  for (const auto& c : kCases) {
    SCOPED_TRACE(::testing::Message() << c.tokens << " tokens, rows " << c.first << " to " << c.first + c.valid);
    const auto table = Buffer::normal({c.rows, c.hidden}, dtype_, 1);
    const auto tokens = draw_tokens(c, 2);
    const Buffer y({c.tokens, c.hidden}, dtype_, 9);
    kernels::embedding_forward(exec_, y, table, tokens, c.first, c.valid);
    const auto rows = table.get(), ids = tokens.get();
    Doubles want(at(c.tokens * c.hidden));
    for (std::int64_t t = 0; t < c.tokens; ++t) {
      const auto row = static_cast<std::int64_t>(ids[at(t)]) - c.first;
      for (std::int64_t i = 0; i < c.hidden && row >= 0 && row < c.valid; ++i) {
        want[at(t * c.hidden + i)] = rows[at(row * c.hidden + i)];
      }
    }
    EXPECT_TRUE(same_bits(y.get(), want));
  }
}

/// Sums are in fp32 and in token order, so they are known to the last bit, for every number of threads.
TEST_P(Embedding, BackwardAddsInTokenOrder) {
  for (const auto& c : kCases) {
    SCOPED_TRACE(::testing::Message() << c.tokens << " tokens, rows " << c.first << " to " << c.first + c.valid);
    const auto dy = Buffer::normal({c.tokens, c.hidden}, dtype_, 1);
    const auto tokens = draw_tokens(c, 2);
    const auto rows = dy.get(), ids = tokens.get();
    std::vector<float> sums(at(c.rows * c.hidden), 0.5f);
    for (std::int64_t t = 0; t < c.tokens; ++t) {
      const auto row = static_cast<std::int64_t>(ids[at(t)]) - c.first;
      for (std::int64_t i = 0; i < c.hidden && row >= 0 && row < c.valid; ++i) {
        sums[at(row * c.hidden + i)] += static_cast<float>(rows[at(t * c.hidden + i)]);
      }
    }
    const auto work = Buffer::bytes(kernels::embedding_workspace_bytes(c.tokens, c.rows));
    for (const auto& exec : exec_widths()) {
      const Buffer dtable({c.rows, c.hidden}, DType::fp32, 0.5);
      kernels::embedding_backward(exec, dtable, dy, tokens, c.first, c.valid, work);
      EXPECT_TRUE(same_bits(dtable.get(), Doubles(sums.begin(), sums.end())));
    }
  }
}

class Position : public Embedding {};

TEST_P(Position, AddsRowsOfThePositions) {
  for (const std::int64_t first : {0, 5, 13}) {
    const std::int64_t tokens = 31, seq = 10, hidden = 9;
    const auto table = Buffer::normal({12, hidden}, dtype_, 1), x = Buffer::normal({tokens, hidden}, dtype_, 2);
    auto want = x.get();
    const auto rows = table.get();
    std::vector<float> sums(at(12 * hidden), 0.25f);
    for (std::int64_t t = 0; t < tokens; ++t) {
      for (std::int64_t i = 0; i < hidden; ++i) {
        const auto position = (first + t) % seq;
        sums[at(position * hidden + i)] += static_cast<float>(want[at(t * hidden + i)]);
        want[at(t * hidden + i)] += rows[at(position * hidden + i)];
      }
    }
    const Buffer dtable({12, hidden}, DType::fp32, 0.25);
    kernels::position_backward(exec_, dtable, x, first, seq);
    EXPECT_TRUE(same_bits(dtable.get(), Doubles(sums.begin(), sums.end())));
    kernels::position_forward(exec_, x, table, first, seq);
    EXPECT_TRUE(all_close(x.get(), want, {rounding(dtype_), 1e-7}));
  }
}

TEST_P(Position, FewerTokensThanPositions) {
  const auto dx = Buffer::normal({3, 2}, dtype_, 1);
  const Buffer dtable({8, 2}, DType::fp32);
  kernels::position_backward(exec_, dtable, dx, 14, 8);
  Doubles want(16);
  for (std::size_t t = 0; t < 3; ++t) {
    for (std::size_t i = 0; i < 2; ++i) want[(14 + t) % 8 * 2 + i] = dx.get()[t * 2 + i];
  }
  EXPECT_TRUE(same_bits(dtable.get(), want));
}

INSTANTIATE_TEST_SUITE_P(, Embedding, ::testing::Values(DType::fp32, DType::bf16));
INSTANTIATE_TEST_SUITE_P(, Position, ::testing::Values(DType::fp32, DType::bf16));

}  // namespace
}  // namespace shard8::tests
