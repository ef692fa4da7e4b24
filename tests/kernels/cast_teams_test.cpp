// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

// What casts are made of, run by Kokkos teams as on a GPU: the same as one host thread gives.

#include <gtest/gtest.h>

#include "kernels/kokkos/cast.hpp"
#include "kernels/kokkos/transpose_tile.hpp"
#include "tests/kernels/quantize_cases.hpp"
#include "tests/support/compare.hpp"

namespace shard8::tests {
namespace {

constexpr std::int64_t kRows = 6, kCols = 331;

/// Every row of x (kRows, kCols) cast to out, its stats and its amax alone.
struct CastRows {
  const float* x;
  tensor::E4M3* out;
  kernels::CastStats* stats;
  std::int32_t* amax;

  template <class Team>
  void operator()(const Team& team, std::int64_t row) const {
    const float* const in = x + row * kCols;
    tensor::E4M3* const to = out + row * kCols;
    const auto all =
        kernels::row_stats(team, kCols, [=](std::int64_t i) { return kernels::cast_element(to[i], in[i], 9.7f); });
    const auto largest = kernels::row_largest(team, kCols, [=](std::int64_t i) { return kernels::magnitude(in[i]); });
    auto* const to_stats = stats + row;
    auto* const to_amax = amax + row;
    kernels::once(team, [=] {
      *to_stats = all;
      *to_amax = largest;
    });
  }
};

TEST(CastTeams, GiveWhatOneThreadGives) {
  for (const auto& input : quantize_inputs({kRows, kCols})) {
    if (input.x.dtype() != DType::fp32) continue;
    SCOPED_TRACE(input.name);
    const Buffer alone({kRows, kCols}, DType::e4m3), together({kRows, kCols}, DType::e4m3);
    std::vector<kernels::CastStats> want(kRows), got(kRows);
    std::vector<std::int32_t> want_amax(kRows), got_amax(kRows);
    const float* x = input.x.tensor().as<float>();
    const CastRows by_one{x, alone.tensor().as<tensor::E4M3>(), want.data(), want_amax.data()};
    const CastRows by_team{x, together.tensor().as<tensor::E4M3>(), got.data(), got_amax.data()};
    for (std::int64_t row = 0; row < kRows; ++row) by_one(kernels::HostTeam{}, row);
    const Exec exec;
    kernels::team_rows(exec, "shard8::tests::cast_teams", kRows, by_team);
    exec.fence("shard8::tests::cast_teams");
    EXPECT_TRUE(same_bits(raw(together), raw(alone)));
    EXPECT_EQ(got_amax, want_amax);
    for (std::size_t row = 0; row < kRows; ++row) {
      EXPECT_EQ(got[row].amax, want_amax[row]);
      EXPECT_EQ(got[row].saturated, want[row].saturated);
      EXPECT_EQ(got[row].flushed, want[row].flushed);
    }
  }
}

TEST(CastTeams, ShareAScratch) {
  struct Scratch {
    alignas(64) std::int32_t values[128];
  };
  const Exec exec;
  const Buffer sums({kRows}, DType::i32), want({kRows}, DType::i32);
  const auto sum_into = [](std::int32_t* to) {
    return [=](const auto& team, std::int64_t row, Scratch& scratch) {
      std::int32_t* const values = scratch.values;
      kernels::row_for(team, 128, [=](std::int64_t i) { values[i] = static_cast<std::int32_t>(row * i); });
      kernels::row_barrier(team);
      const auto total = kernels::row_stats(team, 128, [=](std::int64_t i) {
        return kernels::CastStats{values[i], values[i], 0};
      });
      kernels::once(team, [=] { to[row] = total.saturated + total.amax; });
    };
  };
  kernels::for_rows_with<Scratch>(exec, "shard8::tests::rows", kRows, sum_into(want.tensor().as<std::int32_t>()));
  kernels::team_rows_with<Scratch>(exec, "shard8::tests::teams", kRows, sum_into(sums.tensor().as<std::int32_t>()));
  exec.fence("shard8::tests::teams");
  EXPECT_EQ(elements<std::int32_t>(sums), elements<std::int32_t>(want));
  EXPECT_EQ(elements<std::int32_t>(want)[3], 3 * 127 * 64 + 3 * 127);
}

TEST(CastTeams, TransposeTiles) {
  const auto in = Buffer::normal({70, 331}, DType::e4m3, 4, 30);
  const Buffer want({331, 70}, DType::e4m3), got({331, 70}, DType::e4m3);
  const Exec exec;
  kernels::transpose_bytes(exec, want, in);
  auto* to = reinterpret_cast<std::uint8_t*>(got.tensor().data);
  const auto* from = reinterpret_cast<const std::uint8_t*>(in.tensor().data);
  kernels::team_rows(exec, "shard8::tests::transpose_tiles", kernels::ByteTile::count(70, 331),
                     [=](const auto& team, std::int64_t tile) {
                       kernels::transpose_tile(team, to, from, 70, 331, kernels::ByteTile::of(tile, 70, 331));
                     });
  exec.fence("shard8::tests::transpose_tiles");
  EXPECT_TRUE(same_bits(raw(got), raw(want)));
}

}  // namespace
}  // namespace shard8::tests
