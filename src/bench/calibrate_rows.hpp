// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tuple>
#include <vector>

#include "machine/machine.hpp"

namespace shard8::bench {

/// What rows of collectives must have in common so that their times are comparable.
inline auto kind_of_row(const machine::CollectiveTime& row) { return std::tie(row.nodes, row.op, row.ranks); }

/// Whether the larger one of two collectives of one kind takes less than half the time of the smaller one, which a
/// machine file may not have.
bool contradict(const machine::CollectiveTime& a, const machine::CollectiveTime& b);

/// Adds rows, but for keys that are there and for rows that contradict one that is there. Returns the number of the
/// latter.
int add_collective_rows(std::vector<machine::CollectiveTime>& to, const std::vector<machine::CollectiveTime>& rows);

}  // namespace shard8::bench
