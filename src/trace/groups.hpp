// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string>
#include <vector>

namespace shard8::trace {

/// One group of ranks of a mesh.
struct RankGroup {
  std::string kind;        ///< "tensor", "shard", "replicate", "model", "data" or "world"
  int number = 0;          ///< unique among all groups of the mesh
  std::vector<int> ranks;  ///< ascending
  /// "tensor 1": its kind, and which of the groups of that kind.
  std::string name;
};

/// All groups of a mesh (replicate, shard, tensor) that have several ranks. The tensor index varies fastest with the
/// rank, the replicate index slowest.
std::vector<RankGroup> groups_of(const std::array<int, 3>& mesh);

/// The group of this kind with this rank, or null.
const RankGroup* group_with(const std::vector<RankGroup>& groups, const std::string& kind, int rank);

}  // namespace shard8::trace
