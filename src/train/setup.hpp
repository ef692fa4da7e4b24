// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "comm/mesh.hpp"
#include "deck/config.hpp"
#include "deck/layout.hpp"
#include "fsdp/unit_shape.hpp"
#include "model/dims.hpp"
#include "model/parameters.hpp"

namespace shard8::train {

/// Everything that follows from the deck and a rank's place in the mesh. Making one takes no arena's memory and
/// communicates nothing.
struct Setup {
  deck::Config config;
  deck::Layout layout;
  comm::MeshShape mesh;
  comm::MeshPlace place;
  model::Dims dims;
  fsdp::Options fsdp;
  std::vector<model::UnitSpec> units;
  model::WeightFormat weights;
  int threads = 1;  ///< of this rank's kernels

  /// `config` must come from deck::load; Error(failed) if fsdp.gather is still automatic.
  static Setup make(const deck::Config& config, const comm::MeshPlace& place, int threads);
  /// The deck's group data, with layout.micro_batch as its micro_batch.
  deck::DataConfig data() const;
  /// [unit][parameter]: whether every tensor rank holds the whole parameter.
  std::vector<std::vector<bool>> replicated() const;
  /// [unit][parameter]: whether this rank counts it in the norm of the gradients. Parameters that every tensor rank
  /// holds are counted by tensor rank 0.
  std::vector<std::vector<bool>> counted() const;
};

comm::MeshShape mesh_shape(const deck::MeshConfig& mesh);

}  // namespace shard8::train
