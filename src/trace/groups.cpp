// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "trace/groups.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace shard8::trace {

std::vector<RankGroup> groups_of(const std::array<int, 3>& mesh) {
  const auto [replicas, shards, tensors] = mesh;
  // Which of the indices (replicate, shard, tensor) are the same for all ranks of a group.
  struct Kind {
    const char* name;
    bool replicate, shard, tensor;
  };
  constexpr Kind kKinds[] = {{"tensor", true, true, false},    {"shard", true, false, true},
                             {"replicate", false, true, true}, {"model", true, false, false},
                             {"data", false, false, true},     {"world", false, false, false}};
  std::vector<RankGroup> groups;
  for (const Kind& kind : kKinds) {
    std::map<std::array<int, 3>, std::vector<int>> members;
    for (int rank = 0; rank < replicas * shards * tensors; ++rank) {
      const int tensor = rank % tensors, shard = rank / tensors % shards, replica = rank / tensors / shards;
      members[{kind.replicate ? replica : 0, kind.shard ? shard : 0, kind.tensor ? tensor : 0}].push_back(rank);
    }
    int ordinal = 0;
    for (const auto& [place, ranks] : members) {
      const std::string name = fmt::format("{} {}", kind.name, ordinal++);
      if (ranks.size() > 1) groups.push_back({kind.name, static_cast<int>(groups.size()), ranks, name});
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
