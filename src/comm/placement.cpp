// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/placement.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <span>

#include "base/error.hpp"

namespace shard8::comm {
namespace {

bool all_equal(std::span<const int> values) {
  return std::all_of(values.begin(), values.end(), [&](int v) { return v == values.front(); });
}

std::string list_of(std::span<const int> values) {
  if (all_equal(values)) return fmt::format("{}", values.front());
  return fmt::format("{}", fmt::join(values, ", "));
}

std::string range_of(std::span<const int> values) {
  if (all_equal(values)) return fmt::format("{}", values.front());
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return fmt::format("{} to {}", *least, *most);
}

/// How often each number from 0 on occurs. Every number up to the largest one does.
std::vector<int> counts_of(std::span<const int> numbers) {
  std::vector<int> counts;
  for (const int n : numbers) {
    if (static_cast<std::size_t>(n) >= counts.size()) counts.resize(static_cast<std::size_t>(n) + 1);
    ++counts[static_cast<std::size_t>(n)];
  }
  return counts;
}

}  // namespace

std::string ranks_on_nodes(const Placement& placement) { return list_of(counts_of(placement.node_of)); }

std::string cores_of_nodes(const Placement& placement) { return list_of(placement.cores); }

std::string nodes_of_groups(const Placement& placement, const base::Extents& mesh, base::AxisSet axes) {
  const std::vector<int>& nodes = placement.node_of;
  SHARD8_REQUIRE(static_cast<int>(nodes.size()) == mesh.ranks(), "a placement of {} ranks, and a mesh of {}",
                 nodes.size(), mesh.ranks());
  std::vector<int> spanned;
  for (const std::vector<int>& group : base::groups_of(mesh, axes)) {
    std::set<int> of_group;
    for (const int rank : group) of_group.insert(nodes[static_cast<std::size_t>(rank)]);
    spanned.push_back(static_cast<int>(of_group.size()));
  }
  return range_of(spanned);
}

std::string ranks_on_devices(const Placement& placement) {
  return placement.device_of.empty() ? "none" : range_of(counts_of(placement.device_of));
}

}  // namespace shard8::comm
