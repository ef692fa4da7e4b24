// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "trace/groups.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace shard8::trace {

std::vector<RankGroup> groups_of(const base::Extents& mesh) {
  std::vector<RankGroup> groups;
  for (const base::AxisSet axes : base::named_sets()) {
    const std::string kind(name_of(axes));
    int ordinal = 0;
    for (std::vector<int>& ranks : base::groups_of(mesh, axes)) {
      const std::string name = fmt::format("{} {}", kind, ordinal++);
      if (ranks.size() > 1) groups.push_back({kind, static_cast<int>(groups.size()), std::move(ranks), name});
    }
  }
  return groups;
}

const RankGroup* group_with(const std::vector<RankGroup>& groups, const std::string& kind, int rank) {
  for (const RankGroup& group : groups)
    if (group.kind == kind && std::find(group.ranks.begin(), group.ranks.end(), rank) != group.ranks.end())
      return &group;
  return nullptr;
}

}  // namespace shard8::trace
