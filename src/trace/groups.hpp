// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/axes.hpp"

namespace shard8::trace {

/// One group of ranks of a mesh.
struct RankGroup {
  std::string kind;        ///< the name of a set of axes: base::named_sets()
  int number = 0;          ///< unique among all groups of the mesh
  std::vector<int> ranks;  ///< ascending
  /// "tensor 1": its kind, and which of the groups of that kind.
  std::string name;
};

/// All groups of the named sets of axes that have several ranks.
std::vector<RankGroup> groups_of(const base::Extents& mesh);

/// The group of this kind with this rank, or null.
const RankGroup* group_with(const std::vector<RankGroup>& groups, const std::string& kind, int rank);

}  // namespace shard8::trace
