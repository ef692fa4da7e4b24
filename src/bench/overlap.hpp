// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "deck/config.hpp"
#include "tensor/exec.hpp"

namespace shard8::bench {

struct OverlapSettings {
  int blocks = 5;        ///< how often all variants of a row are timed
  int repetitions = 20;  ///< rounds of a block, after one that is not timed: a round calls each variant once
};

/// Milliseconds of one call on the slowest rank: of each block the mean of its repetitions, and of these the median,
/// the least and the most.
struct BlockTimes {
  double median = 0, least = 0, most = 0;
};
BlockTimes block_times(std::span<const double> milliseconds);

/// One exchange of the tensor group and the product that hides it.
struct OverlapRow {
  std::string key;                   ///< of the deck's group overlap
  std::string method;                ///< direct, pipeline or bulk
  std::int64_t m = 0, n = 0, k = 0;  ///< of the product on one rank
  std::string dtype;                 ///< of the product's left operand
  std::string exchange;              ///< all_gather or reduce_scatter
  std::string exchange_dtype;        ///< of what travels
  std::uint64_t exchange_bytes = 0;  ///< of the whole matrix, as nccl-tests counts
  BlockTimes product;                ///< without an exchange
  BlockTimes alone;                  ///< the exchange without a product
  BlockTimes sequential;             ///< both in the plain order
  BlockTimes overlapped;
  std::optional<BlockTimes> flags;  ///< as overlapped, but each rank exchanges one token; nothing for bulk
  double busbw = 0;                 ///< bytes/s of the exchange alone, as nccl-tests counts

  std::optional<double> hidden() const;
};

/// The share of the exchange's time that the product hides: (sequential − overlapped) / (sequential − product), of
/// times in one unit. Never below 0, where overlap is slower than the plain order, nor above 1, where it is faster than
/// the product alone. Nothing if a time is not positive and finite, or if sequential − product is less than 2 % of
/// sequential: then the exchange takes too little time to say.
std::optional<double> hidden_share(double product, double sequential, double overlapped);

struct OverlapBench {
  OverlapSettings settings;
  int ranks = 0, tensor = 0;
  /// On hosts: why exchanges by parts go by messages; empty if they do not.
  std::string parts_problem;
  std::vector<OverlapRow> rows;
};

/// The deck of which overlap is timed: every key of the group overlap is on, whatever the products' sizes. A key that
/// is ring stays so.
deck::Config overlap_bench_deck(deck::Config config);

/// Times each exchange of `config`, an overlap_bench_deck() whose mesh has several tensor ranks, beside its product.
/// `exec` must outlive the call. Takes the memory of one layer. Collective over `world`. AgreedError(environment) when
/// a rank has not enough memory.
OverlapBench bench_overlap(const deck::Config& config, comm::Communicator world, const tensor::Exec& exec, int threads,
                           const OverlapSettings& settings);

/// Where and with what figures were measured.
struct Measured {
  std::string machine, version, commit, date;
};

/// A table with one line a row; GB is 1e9 bytes. The other two have every member of the rows, times in ms. In CSV what
/// does not exist is empty, in JSON null.
std::string to_text(const OverlapBench& bench);
std::string to_csv(const OverlapBench& bench, const Measured& measured);
std::string to_json(const OverlapBench& bench, const Measured& measured);

}  // namespace shard8::bench
