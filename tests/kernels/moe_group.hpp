// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/moe.hpp"
#include "tests/kernels/moe_cases.hpp"

/// One process plays all ranks of an expert group that write to each other's memory.
namespace shard8::tests {

using RawBytes = std::vector<std::uint8_t>;

/// The bytes of a tensor, as a tensor.
inline Tensor bytes_of(const Tensor& t) { return {t.data, {static_cast<std::int64_t>(t.bytes())}, DType::u8}; }

/// How the tokens of a group choose experts. Ranks have different numbers of tokens that are not padding.
struct MoeGroup {
  int ranks;
  std::int64_t experts, tokens, per_token;
  std::vector<std::vector<std::int32_t>> source;  ///< of each rank: its pairs (token, k), sorted by expert
  std::vector<std::int32_t> counts;               ///< (ranks, experts)

  std::int64_t local() const { return experts / ranks; }
  std::int64_t pairs() const { return tokens * per_token; }
  std::int32_t& count(int rank, std::int64_t expert) { return counts[at(rank * experts + expert)]; }
  std::int32_t count(int rank, std::int64_t expert) const { return counts[at(rank * experts + expert)]; }
  std::int64_t sorted_rows(int rank) const { return static_cast<std::int64_t>(source[at(rank)].size()); }

  /// Each token chooses among the first `popular` experts from number `first` on, cyclically, at random.
  static MoeGroup random(int ranks, std::int64_t experts, std::int64_t tokens, std::int64_t per_token,
                         std::int64_t first, std::int64_t popular, std::mt19937_64& engine) {
    MoeGroup group{ranks, experts, tokens, per_token, {}, std::vector<std::int32_t>(at(ranks * experts))};
    std::vector<std::int64_t> choice(at(popular));
    std::iota(choice.begin(), choice.end(), first);
    for (int rank = 0; rank < ranks; ++rank) {
      std::vector<std::pair<std::int64_t, std::int32_t>> pairs;
      for (std::int64_t t = 0; t < tokens; ++t) {
        std::shuffle(choice.begin(), choice.end(), engine);
        if (engine() % 5 == 0) continue;  // padding
        for (std::int64_t k = 0; k < per_token; ++k) {
          pairs.emplace_back(choice[at(k)] % experts, static_cast<std::int32_t>(t * per_token + k));
          ++group.count(rank, pairs.back().first);
        }
      }
      std::ranges::sort(pairs);
      auto& sorted = group.source.emplace_back();
      for (const auto& pair : pairs) sorted.push_back(pair.second);
    }
    return group;
  }

  /// A row that a rank receives: the sorted row number `row` of rank `from`. Padding is from rank −1.
  struct Row {
    int from = -1;
    std::int64_t row = 0;
    bool operator==(const Row&) const = default;
  };
  /// All rows that a rank receives, in order.
  std::vector<Row> received(int rank, std::int64_t multiple) const {
    std::vector<Row> rows;
    for (std::int64_t e = rank * local(); e < (rank + 1) * local(); ++e) {
      for (int from = 0; from < ranks; ++from) {
        std::int64_t row = 0;
        for (std::int64_t before = 0; before < e; ++before) row += count(from, before);
        for (std::int64_t i = 0; i < count(from, e); ++i) rows.push_back({from, row + i});
      }
      while (static_cast<std::int64_t>(rows.size()) % multiple != 0) rows.emplace_back();
    }
    return rows;
  }
  /// The most rows with padding that a rank receives.
  std::int64_t most_received(std::int64_t multiple) const {
    std::size_t most = 0;
    for (int rank = 0; rank < ranks; ++rank) most = std::max(most, received(rank, multiple).size());
    return static_cast<std::int64_t>(most);
  }
};

/// The tensors of MoeDispatch of a rank, with memory of their own. Their elements are poisoned.
struct MoeDispatchBuffers {
  MoeDispatchBuffers(const MoeGroup& group, int rank, std::int64_t round_rows, std::int64_t multiple,
                     std::int64_t rounds)
      : counts({group.ranks, group.experts}, DType::i32, Doubles(group.counts.begin(), group.counts.end())),
        first({rounds, group.local()}, DType::i32, -77),
        rows({rounds, group.local()}, DType::i32, -77),
        end({rounds}, DType::i32, -77),
        table({kernels::moe_dispatch_table_count(group.ranks, group.experts, rounds)}, DType::i32, -77),
        dispatch{counts, rank, round_rows, multiple, first, rows, end, table} {}

  Buffer counts, first, rows, end, table;
  kernels::MoeDispatch dispatch;
};

}  // namespace shard8::tests
