// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <utility>
#include <vector>

#include "base/axes.hpp"
#include "comm/communicator.hpp"

namespace shard8::comm {

/// This rank's place on the mesh and its groups.
struct Mesh {
  base::Place place;
  Communicator world;
  std::vector<std::pair<base::AxisSet, Communicator>> groups;  ///< the groups that make_mesh() made

  /// The group of `axes`: the ranks whose places differ from this rank's along these axes only, ordered by
  /// Place::rank(axes). Error(failed) for a set of which there are no communicators.
  const Communicator& group(base::AxisSet axes) const;
};

/// The groups whose exchanges are overlapped with products. On a device they have streams of their own.
struct OverlappedGroups {
  bool tensor = false;
  bool expert = false;  ///< the pushes of the expert group

  bool operator==(const OverlappedGroups&) const = default;
};

/// Splits `world` into the groups tensor, shard, replicate and model, into expert and expert_shard if extents.expert is
/// not 1, and into those of the sets `further`. Collective.
/// Throws Error(environment) with both numbers when `world` does not have extents.ranks() ranks. On a device groups of
/// `further` compute on the compute stream.
///
/// Groups that sum gradients have SumOrder::tree: those along data axes alone, and those over which experts are
/// sharded, model and expert_shard. Place::rank numbers data ranks with the shard varying fastest. So a sum over the
/// shard group and then over the replicate group has the same bits for every split of equally many data ranks, if both
/// extents are powers of two.
Mesh make_mesh(Communicator world, const base::Extents& extents, OverlappedGroups overlapped = {},
               std::initializer_list<base::AxisSet> further = {});
/// The mesh of the rank at `place` with groups that are only planned (Communicator::on_paper).
Mesh mesh_on_paper(const base::Place& place);

}  // namespace shard8::comm
