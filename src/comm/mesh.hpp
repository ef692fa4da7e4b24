// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/communicator.hpp"

namespace shard8::comm {

/// Extents of the mesh. The number of ranks is their product; tensor varies fastest, replicate slowest.
struct MeshShape {
  int replicate = 1, shard = 1, tensor = 1;
  int ranks() const { return replicate * shard * tensor; }
  int data_ranks() const { return replicate * shard; }
};

/// This rank's place: rank = (replicate·S + shard)·T + tensor.
struct MeshPlace {
  int replicate = 0, shard = 0, tensor = 0;
};
MeshPlace place_of(const MeshShape& shape, int rank);

/// The communicators of a run.
struct Mesh {
  MeshShape shape;
  MeshPlace place;
  Communicator world;
  Communicator replicate;  ///< same shard and tensor place
  Communicator shard;      ///< same replicate and tensor place
  Communicator tensor;     ///< same replicate and shard place
  Communicator model;      ///< shard × tensor, same replica: owns every parameter once
  int data_rank() const { return place.replicate * shape.shard + place.shard; }
};

/// Splits `world` into the groups of a mesh. Collective. Throws Error(environment) with both numbers when `world` does
/// not have shape.ranks() ranks.
///
/// `tensor_overlap`: exchanges of the tensor group run beside products, so on a device it has streams of its own.
Mesh make_mesh(Communicator world, const MeshShape& shape, bool tensor_overlap = false);
/// The same of groups that are only planned (Communicator::on_paper), for the rank at `place`.
Mesh mesh_on_paper(const MeshShape& shape, const MeshPlace& place);

}  // namespace shard8::comm
