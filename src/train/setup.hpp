// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "base/axes.hpp"
#include "deck/config.hpp"
#include "deck/layout.hpp"
#include "fsdp/weight_forms.hpp"
#include "model/dims.hpp"
#include "model/parameters.hpp"

namespace shard8::train {

/// Everything that follows from the deck and a rank's place in the mesh. Making one takes no arena's memory and
/// communicates nothing.
struct Setup {
  deck::Config config;
  deck::Layout layout;
  base::Extents mesh;
  base::Place place;
  model::Dims dims;
  fsdp::Options fsdp;
  std::vector<model::UnitSpec> units;
  model::WeightFormat weights;
  int threads = 1;  ///< of this rank's kernels

  /// Of this rank of the deck's mesh. `config` must come from deck::load; Error(failed) if fsdp.gather is still
  /// automatic.
  static Setup make(const deck::Config& config, int rank, int threads);
  /// Whether a run of this deck validates.
  bool validates() const { return config.run.validate_every > 0 && config.run.skeleton == deck::Skeleton::none; }
  /// The deck's group data, with layout.micro_batch as its micro_batch.
  deck::DataConfig data() const;
};

}  // namespace shard8::train
