// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bench/calibrate_import.hpp"
#include "profile/collective_log.hpp"

// What the readers of imported files share.

namespace shard8::bench {

/// Throws Error(deck) "place: error: what: remedy". Without a remedy it says which files are read.
[[noreturn]] void refuse_import(const std::string& place, const std::string& what, const std::string& remedy = {});

/// The remedy for a value that is wrong in a file of a known program.
inline constexpr const char* kMeasureAgain = "measure again, or import a copy of the file without what is wrong";

/// Throws Error(deck) for a size that is no whole number from 1 to 1e18.
void require_size(double bytes, const std::string& place);

/// The operation that a program's name or title means: "all_gather_perf", "OSU MPI Allgather Latency Test". None for
/// forms whose ranks contribute different amounts (alltoallv), for blocks and for neighborhoods.
std::optional<profile::Collective> operation_in(const std::string& text);

/// Whether nccl-tests' times in place are those of shard8's collective.
inline bool in_place(profile::Collective op) {
  return op != profile::Collective::all_to_all && op != profile::Collective::send_receive;
}

/// A file that is being read. A `place` is a part of the file as errors name it: "all_gather.txt:7".
struct Import {
  std::string file, text;
  int nodes = 0, ranks = 0;   ///< as the user gives them, or else as the file says; 0: neither
  bool given = false;         ///< by the user
  bool any_distance = false;  ///< rows of one key are of several groups: their times may differ by any factor
  ImportedRows rows{};

  /// Sets `nodes` and `ranks` from the ranks of each host, which the file says at `place`. If the user gave them, they
  /// stay; then a file with as many ranks in all on another number of hosts gets a remark, and one with another number
  /// of ranks is an Error(deck). So are hosts with different numbers of ranks. Does nothing if the file names no host.
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

}  // namespace shard8::bench
