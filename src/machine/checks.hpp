// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "deck/diagnostics.hpp"
#include "machine/machine.hpp"

namespace shard8::machine {

/// Where the entries of a machine that is being read are in its file. Those of tables are in the order of the rows.
struct Places {
  std::vector<deck::Span> products, attention, kernels, collectives;
  std::map<std::string, deck::Span, std::less<>> figures;  ///< by "group.key"
};

/// Adds an error for entries that contradict each other: the same row twice; a collective that takes less than half the
/// time of a smaller one of the same operation and ranks; more ranks on a node than the node has devices; a product
/// more than 5 % faster than the device's peak; a kernel that moves above 256 MiB at more than 1.2 times the bandwidth
/// of the memory; an idle device that takes more than its limit of power.
void check_together(deck::Diagnostics& errors, const Machine& machine, const Places& places);

}  // namespace shard8::machine
