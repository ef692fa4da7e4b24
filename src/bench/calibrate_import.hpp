// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "machine/machine.hpp"
#include "profile/collective_log.hpp"

namespace shard8::bench {

/// What a file of another program tells, without sources. No two rows have the same key.
struct ImportedRows {
  std::string file;
  std::vector<std::string> remarks;  ///< lines for the user, with file and line: what was left out or decided
  std::vector<machine::ProductTime> products;
  std::vector<machine::CollectiveTime> collectives;
};

/// Reads figures of another program, or of `shard8 bench --json`. `what` is FILE, or FILE:NODESxRANKS, which says on
/// how many nodes and with how many ranks on each the figures were measured; without it the file says it, and `bench
/// collective` was on one node. Formats: JSON and tables of nccl-tests, of which collectives in place count; tables of
/// the OSU micro-benchmarks osu_allgather, osu_reduce_scatter, osu_allreduce and osu_alltoall, of which the average
/// counts, and of their non-blocking forms the pure communication; the JSON of `bench collective` and `bench gemm`.
/// Sizes become bytes of the whole. Rows of 0 bytes are skipped. Rows of one key become their mean, with a remark.
/// Error(deck) with the place and what to do if the file cannot be read, is none of these, has values that cannot be
/// or rows that are not whole, says that data came out wrong, or was measured on another number of ranks than `what`
/// says; and if of two times of one key one is more than twice the other, but for groups of `bench collective`.
ImportedRows read_import(const std::string& what);

// What the readers of imported files share.

/// Throws Error(deck) "place: error: what: remedy". Without a remedy it says which files are read.
[[noreturn]] void refuse_import(const std::string& place, const std::string& what, const std::string& remedy = {});

/// The remedy for a value that is wrong in a file of a known program.
inline constexpr const char* kMeasureAgain = "measure again, or import a copy of the file without what is wrong";

/// Throws Error(deck) for a size that is no whole number from 1 to 1e18.
void require_size(double bytes, const std::string& place);

/// The operation that a program's name or title means: "all_gather_perf", "OSU MPI Allgather Latency Test". Returns
/// none for forms whose ranks contribute different amounts (alltoallv), for blocks and for neighborhoods.
std::optional<profile::Collective> operation_in(const std::string& text);

/// A file that is being read. A `place` is a part of the file as errors name it: "all_gather.txt:7".
struct Import {
  std::string file, text;
  int nodes = 0, ranks = 0;   ///< as the user gives them, or else as the file says; 0: neither
  bool given = false;         ///< by the user
  bool any_distance = false;  ///< rows of one key are of several groups: their times may differ by any factor
  ImportedRows rows{};

  /// Sets `nodes` and `ranks` from the ranks of each host, which the file says at `place`. If the user gave them, they
  /// stay; then a file with as many ranks in all on another number of hosts gets a remark, and one with another number
  /// of ranks is an Error(deck). Hosts with different numbers of ranks are an Error(deck), too. Does nothing if the
  /// file names no host.
  void set_shape(const std::map<std::string, std::int64_t>& ranks_of, const std::string& place);
  /// Throws Error(deck) without nodes and ranks.
  void need_shape() const;
  /// Throws Error(deck) without an operation.
  profile::Collective need(std::optional<profile::Collective> op) const;
  /// The operation that the file's own name says.
  std::optional<profile::Collective> operation_of_name() const;
  /// A collective with a whole of so many bytes, and its microseconds. Error(deck) for sizes that are no whole numbers
  /// from 1 to 1e18, and for times that cannot be.
  void add(profile::Collective op, double bytes, double us, const std::string& place);
  /// A product and its milliseconds. Error(deck) for times that cannot be.
  void add(const operation::Product& product, double ms, const std::string& place);
  void remark(const std::string& place, const std::string& what) { rows.remarks.push_back(place + ": " + what); }
  /// Adds the remark about rows of one key. Called after the last row.
  void finish();

  /// The times of one key.
  struct Timed {
    std::string place;  ///< of the first
    int rows = 1;
  };
  template <class Row, class Same>
  void add_row(std::vector<Row>& to, std::vector<Timed>& timed, const Row& row, const std::string& place,
               const std::string& name, const Same& same);

  std::vector<Timed> timed_collectives{}, timed_products{};  ///< for each row of `rows`
  std::vector<std::string> repeated{};                       ///< places of rows with the key of an earlier row
  double farthest = 1;                                       ///< factor between rows of one key
  bool said_shape = false;
};

/// Read the file of `import` into its rows. Errors are those of read_import().
void read_json(Import& import);
void read_nccl_table(Import& import);
void read_osu_table(Import& import);

/// What rows of collectives must have in common so that their times are comparable.
inline auto kind_of_row(const machine::CollectiveTime& row) { return std::tie(row.nodes, row.op, row.ranks); }

/// Whether the larger one of two collectives of one kind takes less than half the time of the smaller one, which a
/// machine file may not have.
bool contradict(const machine::CollectiveTime& a, const machine::CollectiveTime& b);

/// Adds rows, but for keys that are there and for rows that contradict one that is there. Returns the number of the
/// latter.
int add_collective_rows(std::vector<machine::CollectiveTime>& to, const std::vector<machine::CollectiveTime>& rows);

}  // namespace shard8::bench
