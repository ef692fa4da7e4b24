// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

// The parts of casts, run by Kokkos teams as on a GPU, must give the same as one host thread gives.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "kernels/kokkos/cast.hpp"
#include "kernels/kokkos/cast_tiles.hpp"
#include "kernels/kokkos/transpose_tile.hpp"
#include "tests/kernels/quantize_cases.hpp"
#include "tests/support/compare.hpp"

namespace shard8::tests {
namespace {

constexpr std::int64_t kRows = 6;

/// Casts every row of x (kRows, cols) to out, with its amax and counts, and computes its amax alone.
template <class T>
struct CastRows {
  const T* x;
  tensor::E4M3* out;
  std::int32_t *amax, *largest;
  kernels::CastCounts* counts;
  std::int64_t cols;
  bool fits;

  template <class Team>
  KOKKOS_FUNCTION void operator()(const Team& team, std::int64_t row) const {
    const T* const in = x + row * cols;
    tensor::E4M3* const to = out + row * cols;
    const auto stats = kernels::row_stats<kernels::kPack<T>>(
        team, cols, fits, [=](auto w, std::int64_t i) { return kernels::cast_lanes(w, to, i, w.load(in, i), 9.7f); });
    kernels::CastTotals{amax + row, counts + row}.add(team, stats);
    const auto alone =
        kernels::row_largest(team, cols, [=](std::int64_t i) { return kernels::magnitude(static_cast<float>(in[i])); });
    std::int32_t* const to_largest = largest + row;
    kernels::once(team, [=] { *to_largest = alone; });
  }
};

template <class T>
void check_rows(std::int64_t cols, bool fits) {
  for (const auto& input : quantize_inputs({kRows, cols})) {
    if (input.x.dtype() != tensor::dtype_of<T>()) continue;
    SCOPED_TRACE(input.name);
    const auto count = static_cast<std::size_t>(kRows * cols);
    const auto values = stored<T>(input.x);
    std::vector<tensor::E4M3> codes(count);
    std::vector<std::int32_t> amax(kRows), largest(kRows);
    std::vector<kernels::CastCounts> counts(kRows);
    const CastRows<T> by_one{values.data(), codes.data(), amax.data(), largest.data(), counts.data(), cols, fits};
    for (std::int64_t row = 0; row < kRows; ++row) by_one(kernels::HostTeam{}, row);

    const Buffer team_codes({kRows, cols}, DType::e4m3), team_amax({kRows}, DType::i32),
        team_largest({kRows}, DType::i32);
    const Buffer team_counts({kRows * static_cast<std::int64_t>(sizeof(kernels::CastCounts))}, DType::u8);
    const Exec exec;
    kernels::team_rows(exec, "shard8::tests::cast_teams", kRows,
                       CastRows<T>{input.x.tensor().as<T>(), team_codes.tensor().as<tensor::E4M3>(),
                                   team_amax.tensor().as<std::int32_t>(), team_largest.tensor().as<std::int32_t>(),
                                   reinterpret_cast<kernels::CastCounts*>(team_counts.tensor().data), cols, fits});
    std::vector<std::uint8_t> want;
    for (const auto code : codes) want.push_back(code.bits);
    EXPECT_TRUE(same_bits(raw(team_codes), want));
    EXPECT_EQ(stored<std::int32_t>(team_amax), amax);
    EXPECT_EQ(stored<std::int32_t>(team_largest), largest);
    EXPECT_EQ(largest, amax);
    const auto got = stored<kernels::CastCounts>(team_counts);
    for (std::size_t row = 0; row < kRows; ++row) {
      EXPECT_EQ(got[row].saturated, counts[row].saturated);
      EXPECT_EQ(got[row].flushed, counts[row].flushed);
    }
  }
}

TEST(CastTeams, GiveWhatOneThreadGives) {
  check_rows<float>(331, false);
  check_rows<tensor::BFloat16>(331, false);
}
TEST(CastTeams, GiveItInPacksToo) {
  check_rows<float>(332, true);   // rows of whole packs
  check_rows<float>(5136, true);  // several packs a thread
  check_rows<tensor::BFloat16>(336, true);
  check_rows<tensor::BFloat16>(5136, true);
}

struct Scratch {
  alignas(64) std::int32_t values[128];
};
/// Computes Σ row·i for i < 128 through the scratch.
struct SumRow {
  std::int32_t* to;
  template <class Team>
  KOKKOS_FUNCTION void operator()(const Team& team, std::int64_t row, Scratch& scratch) const {
    std::int32_t* const values = scratch.values;
    kernels::row_for(team, 128, [=](std::int64_t i) { values[i] = static_cast<std::int32_t>(row * i); });
    kernels::row_barrier(team);
    kernels::once(team, [=, *this] {
      std::int32_t total = 0;
      for (int i = 0; i < 128; ++i) total += values[i];
      to[row] = total;
    });
  }
};

TEST(CastTeams, ShareAScratch) {
  const Exec exec;
  const Buffer by_rows({kRows}, DType::i32), by_teams({kRows}, DType::i32);
  kernels::for_rows_with<Scratch>(exec, "shard8::tests::rows", kRows, SumRow{by_rows.tensor().as<std::int32_t>()});
  kernels::team_rows_with<Scratch>(exec, "shard8::tests::teams", kRows, SumRow{by_teams.tensor().as<std::int32_t>()});
  for (std::int32_t row = 0; row < kRows; ++row) {
    EXPECT_EQ(by_rows.get()[static_cast<std::size_t>(row)], row * 127 * 64);
    EXPECT_EQ(by_teams.get()[static_cast<std::size_t>(row)], row * 127 * 64);
  }
}

TEST(CastTeams, TransposeTiles) {
  for (const auto& [rows, cols] : {std::pair<std::int64_t, std::int64_t>{70, 331}, {144, 80}, {16, 16}}) {
    SCOPED_TRACE(to_string(Shape{rows, cols}));
    const auto in = Buffer::normal({rows, cols}, DType::e4m3, 4, 30);
    const Buffer got({cols, rows}, DType::e4m3);
    auto* to = reinterpret_cast<std::uint8_t*>(got.tensor().data);
    const auto* from = reinterpret_cast<const std::uint8_t*>(in.tensor().data);
    kernels::team_rows(Exec(), "shard8::tests::transpose_tiles", kernels::ByteSquare::teams(rows, cols),
                       kernels::TransposeTiles{to, from, rows, cols, kernels::squares_fit(rows, cols, to, from)});
    const auto bytes = raw(in);
    std::vector<std::uint8_t> want(bytes.size());
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      const auto r = i / static_cast<std::size_t>(cols), c = i % static_cast<std::size_t>(cols);
      want[c * static_cast<std::size_t>(rows) + r] = bytes[i];
    }
    EXPECT_TRUE(same_bits(raw(got), want));
  }
}

/// Codes that threads put into a tile by rows are written by columns, and only inside the matrix.
template <int kHigh, int N>
void check_code_tile(std::int64_t rows, std::int64_t cols) {
  constexpr unsigned kWide = 128, kThreads = 256;
  const auto code = [](unsigned r, unsigned c) { return static_cast<std::uint8_t>(7 * r + 31 * c + r * c / 16); };
  const auto tile = std::make_unique<kernels::CodeTile<kHigh>>();
  const auto pack = [&](unsigned r, unsigned c, std::uint8_t change) {
    kernels::Words<N> words = {};
    for (int k = 0; k < N; ++k) words.put(k, static_cast<std::uint8_t>(code(r, c + static_cast<unsigned>(k)) ^ change));
    return words;
  };
  for (unsigned four = 0; four < kHigh / 4; ++four) {
    for (unsigned c = 0; c < kWide; c += N) {
      kernels::Words<N> row[4] = {};
      for (unsigned r = 0; r < 4; ++r) row[r] = pack(4 * four + r, c, r == 2 ? 0x55 : 0);
      tile->put(four, c, row);
    }
  }
  for (unsigned r = 2; r < kHigh; r += 4) {
    for (unsigned c = 0; c < kWide; c += N) tile->patch(r, c, pack(r, c, 0));
  }
  std::vector<std::uint8_t> got(static_cast<std::size_t>(kHigh * kWide), 0), want = got;
  for (unsigned rank = 0; rank < kThreads; ++rank) {
    tile->template store<N, kThreads>(rank, got.data(), kHigh, rows, cols);
  }
  for (unsigned c = 0; c < cols; ++c) {
    for (unsigned r = 0; r < std::min<std::int64_t>(rows, kHigh); ++r) want[c * kHigh + r] = code(r, c);
  }
  EXPECT_TRUE(same_bits(got, want)) << rows << " by " << cols;
}
TEST(CastTeams, TurnTilesOfCodes) {
  check_code_tile<128, 8>(128, 128);
  check_code_tile<128, 8>(48, 72);
  check_code_tile<128, 4>(1000, 124);
  check_code_tile<64, 8>(64, 128);
  check_code_tile<64, 4>(48, 36);
}

}  // namespace
}  // namespace shard8::tests
