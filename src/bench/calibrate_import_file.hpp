// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "bench/calibrate_import.hpp"
#include "profile/collective_log.hpp"

// What the readers of imported files share.

namespace shard8::bench {

/// Throws Error(deck) "place: error: what: remedy". Without a remedy it says which files are read.
[[noreturn]] void refuse_import(const std::string& place, const std::string& what, const std::string& remedy = {});

/// The operation that a program's name or title means: "all_gather_perf", "OSU MPI Allgather Latency Test".
std::optional<profile::Collective> operation_in(const std::string& text);

/// Whether nccl-tests' times in place are those of shard8's collective.
inline bool in_place(profile::Collective op) {
  return op != profile::Collective::all_to_all && op != profile::Collective::send_receive;
}

/// A file that is being read.
struct Import {
  std::string file, text;
  int nodes = 0, ranks = 0;  ///< as the user gives them; 0: not given
  ImportedRows rows{};

  /// As the file says: ranks on so many nodes. What the user gave stays.
  void set_shape(int ranks_in_all, int on_nodes);
  /// Throws Error(deck) without nodes and ranks.
  void need_shape() const;
  /// Throws Error(deck) without an operation.
  profile::Collective need(std::optional<profile::Collective> op) const;
  /// The operation that the file's own name says.
  std::optional<profile::Collective> operation_of_name() const;
  /// A collective with a whole of so many bytes, and its microseconds.
  void add(profile::Collective op, double bytes, double us);
};

/// Read the file of `import` into its rows. Errors are those of read_import().
void read_json(Import& import);
void read_nccl_table(Import& import);
void read_osu_table(Import& import);

}  // namespace shard8::bench
