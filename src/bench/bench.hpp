// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "deck/config.hpp"
#include "kernels/libraries.hpp"
#include "profile/collective_log.hpp"
#include "tensor/runtime.hpp"
#include "train/assembly.hpp"
#include "train/checkpoints.hpp"

namespace shard8::bench {

/// Seconds of the steady clock since `begin`.
inline double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Whether the result of a collective replaces its input in the same memory. Of nccl-tests' two times those "in place"
/// then belong to shard8's collective, otherwise those "out of place".
inline bool in_place(profile::Collective op) {
  return op != profile::Collective::all_to_all && op != profile::Collective::send_receive;
}

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

/// One exchange of the tensor group or of the expert group, and the products that hide it.
struct OverlapRow {
  std::string key;                   ///< of the deck's group overlap
  std::string method;                ///< direct, pipeline, ring or bulk
  std::int64_t m = 0, n = 0, k = 0;  ///< of the product on one rank
  std::string dtype;                 ///< of the product's left operand
  std::string exchange;              ///< all_gather, reduce_scatter or all_to_all
  std::string exchange_dtype;        ///< of the exchanged matrix
  std::uint64_t exchange_bytes = 0;  ///< of the whole matrix, as nccl-tests counts
  BlockTimes product;                ///< without an exchange
  BlockTimes alone;                  ///< the exchange without a product
  BlockTimes sequential;             ///< both in the plain order
  BlockTimes overlapped;
  std::optional<BlockTimes>
      flags;         ///< as overlapped, but each rank exchanges one token; nothing for bulk and rows of experts
  double busbw = 0;  ///< bytes/s of the exchange alone, as nccl-tests counts

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
  /// Why dispatch and combine are not timed although the deck has experts on several ranks; empty if they are.
  std::string push_problem;
  std::vector<OverlapRow> rows;
};

/// The deck of which overlap is timed: every key of the group overlap is on, whatever the products' sizes. A key that
/// is ring stays so.
deck::Config overlap_bench_deck(deck::Config config);

/// Times each exchange of `config`, an overlap_bench_deck() in which something can overlap, and its product: each
/// alone, one after the other, and overlapped. Takes memory for their matrices. `threads` are those of this rank's
/// kernels. Collective over `world`. AgreedError(environment) when a rank has not enough memory.
OverlapBench bench_overlap(const deck::Config& config, comm::Communicator world, const tensor::Exec& exec, int threads,
                           const OverlapSettings& settings);

/// Where and with what figures were measured.
struct Measured {
  std::string machine, version, commit, date;
};

/// The rows as a table with one line a row, in which GB is 1e9 bytes, as CSV, and as JSON. CSV and JSON have every
/// member of the rows, times in ms. What does not exist is empty in CSV and null in JSON.
std::string to_text(const OverlapBench& bench);
std::string to_csv(const OverlapBench& bench, const Measured& measured);
std::string to_json(const OverlapBench& bench, const Measured& measured);

using GemmRows = std::vector<kernels::Libraries::Choice>;

/// Times every matrix product of the deck on its operands: with the algorithm that a run chooses, and with the best of
/// an exhaustive search over the library's algorithms. Collective over the ranks of `assembly`, whose files are open
/// and which is not started. The result is of this rank, the slowest product first.
GemmRows bench_gemm(train::Assembly& assembly);

/// A table with one product a line.
std::string to_text(const GemmRows& rows);

/// Keys as in the JSON of `bench overlap`, as far as both have them: `scripts/plot` draws a roofline of either. Times
/// in ms; what was not timed or searched is null.
std::string to_json(const GemmRows& rows, const Measured& measured);

/// The layout of the JSON of `bench collective`.
inline constexpr int kCollectivesSchema = 1;

struct CollectiveSettings {
  std::uint64_t least = 64 << 10, most = 16 << 20;  ///< bytes of the smallest and the largest whole
  int factor = 8;                                   ///< from one size to the next
  int warmup = 5;                                   ///< calls that are not timed
  int repetitions = 20;                             ///< calls in a row that are
  bool check = true;                                ///< compare the data of one more call
};

/// One kind and size of a collective, counted as nccl-tests does. `bytes` are those of the whole. `count` is the number
/// of elements that a rank gives to an all-gather, gets from a reduce-scatter, has in an all-reduce, gives to each rank
/// in an all-to-all or sends in a send_receive.
struct CollectiveFigures {
  std::string group;
  int ranks = 0;
  profile::Collective op{};
  std::string dtype;
  std::uint64_t bytes = 0, count = 0;
  double us = 0;                ///< of a call, the mean over repetitions and ranks
  double algbw = 0, busbw = 0;  ///< bytes/s
  std::optional<std::uint64_t>
      wrong{};  ///< elements with another value than they must have, on all ranks; nothing: not checked
};

/// The most bytes that a rank allocates for the sizes, in a group of at most `ranks` ranks.
std::uint64_t host_collective_bytes(const CollectiveSettings& settings, int ranks);

/// Times all-gathers of bytes, reduce-scatters in fp32 and bf16, all-reduces in fp32, and of bytes all-to-alls and
/// send_receives to the next rank, in host memory. Collective over `group`, which has several ranks.
/// AgreedError(environment) when a rank has not enough memory.
std::vector<CollectiveFigures> bench_host_collectives(const comm::Communicator& group,
                                                      const CollectiveSettings& settings);

/// The mean of busbw over the rows, in bytes/s; 0 without rows. average_text() says it as nccl-tests does, in a line.
double average_busbw(std::span<const CollectiveFigures> rows);
std::string average_text(std::span<const CollectiveFigures> rows);
/// A table with the columns of nccl-tests, and its average bus bandwidth. GB is 1e9 bytes.
std::string to_text(std::span<const CollectiveFigures> rows);
std::string to_json(std::span<const CollectiveFigures> rows, const CollectiveSettings& settings,
                    const Measured& measured);

struct CheckpointSettings {
  int runs = 5;
  std::string dir;                  ///< a folder in it, which must not exist before, is made and removed
  bool evict = true;                ///< pages of the files are evicted before they are loaded
  train::RunDescription run;        ///< for the manifests
  std::function<bool()> signalled;  ///< whether a signal requests that this rank stops; empty: never
};

/// Seconds of the slowest rank, and bytes/s of all ranks and of the slowest one, of one transfer.
struct Transfer {
  double seconds = 0, bytes_per_s = 0, slowest_bytes_per_s = 0;
};

struct CheckpointRun {
  Transfer save;         ///< training waits: from the begin until it is durable
  Transfer plain;        ///< as many bytes a rank written in pieces of 4 MiB to a file of its own, then fsync
  Transfer load;         ///< into the same state on the same mesh, all digests checked
  Transfer async;        ///< written while steps are trained: from the begin until it is durable
  double held_up_s = 0;  ///< what these steps waited because of the checkpoint, of the slowest rank
  int steps = 0;         ///< how many were trained meanwhile
};

struct CheckpointBench {
  std::uint64_t bytes = 0;  ///< of one checkpoint
  int ranks = 0;
  std::vector<CheckpointRun> runs;
};

/// The deck of which the benchmark assembles the state: synthetic data, checkpoints when the benchmark needs them.
deck::Config checkpoint_bench_deck(deck::Config config);

/// Saves and loads the state of `assembly`, which has opened its files and started, with checkpoint_bench_deck().
/// Collective. AgreedError(verification) when what was loaded differs from what was saved, AgreedError(failed) when a
/// checkpoint could not be written, others as train::CheckpointFolder and train::restore say. Nothing is left in the
/// folder of the settings.
CheckpointBench bench_checkpoint(train::Assembly& assembly, const CheckpointSettings& settings);

/// A table of the smallest, mean and largest figures, and the same as JSON. GB is 1e9 bytes.
std::string to_text(const CheckpointBench& bench);
std::string to_json(const CheckpointBench& bench);

}  // namespace shard8::bench
