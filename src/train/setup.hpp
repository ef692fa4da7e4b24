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
#include "operation/executor.hpp"

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

  /// The setup of the rank number `rank` of the deck's mesh. `config` must come from deck::load; Error(failed) if
  /// fsdp.gather is still automatic.
  static Setup make(const deck::Config& config, int rank, int threads);
  /// Whether a run of this deck validates.
  bool validates() const { return config.run.validate_every > 0 && config.run.skeleton == deck::Skeleton::none; }
  /// The deck's group data, with layout.micro_batch as its micro_batch.
  deck::DataConfig data() const;
};

/// The place of a step in its run. The first and the last step differ from all others.
struct StepOfRun {
  bool first = false;  ///< no earlier step has gathered for this one, and delayed scaling has no history
  bool last = false;   ///< the step gathers for no later step
};

/// The steps of a run that differ: all but the first and the last are like the last entry.
inline constexpr StepOfRun kStepsOfRun[] = {{.first = true}, {.last = true}, {}};

/// Passes the operations of Trainer::step on the rank at setup.place to `sink`, one by one, so that no list takes
/// memory. Records the step: nothing is computed or communicated, and the tensors have no memory. Copies between host
/// and device memory (tokens, loss and norm) are not among the operations. Returns operation::Operations::ahead.
/// `calls` is told of the tensors of all collectives of this step and of those before it.
std::vector<int> record_step(const Setup& setup, const StepOfRun& step, const operation::Recorder::Sink& sink,
                             const operation::Recorder::Calls& calls = {});
/// The operations of Trainer::step as a list.
operation::Operations record_step(const Setup& setup, const StepOfRun& step = {});

}  // namespace shard8::train
