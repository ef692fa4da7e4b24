// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "machine/machine.hpp"

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

}  // namespace shard8::bench
