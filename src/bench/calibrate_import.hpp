// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "machine/machine.hpp"

namespace shard8::bench {

/// What a file of another program tells, without sources.
struct ImportedRows {
  std::string file;
  std::vector<machine::ProductTime> products;
  std::vector<machine::CollectiveTime> collectives;
};

/// Reads figures of another program, or of `shard8 bench --json`. `what` is FILE, or FILE:NODESxRANKS, which says on
/// how many nodes and with how many ranks on each the figures were measured; without it the file says it, and `bench
/// collective` was on one node. Formats: JSON (version 1) and tables of nccl-tests, of which collectives in place
/// count, tables of the OSU micro-benchmarks osu_allgather, osu_reduce_scatter, osu_allreduce and osu_alltoall, of
/// which the average counts, and the JSON of `bench collective` and `bench gemm`. Sizes become bytes of the whole.
/// Error(deck) with the place and what to do if the file cannot be read, is none of these, or has values that cannot
/// be.
ImportedRows read_import(const std::string& what);

}  // namespace shard8::bench
