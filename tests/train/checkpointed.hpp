// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tests/train/training.hpp"
#include "train/checkpoints.hpp"

namespace shard8::test {

/// What a manifest says of a deck: all keys.
train::RunDescription described(const deck::Config& config);

/// A training that goes on from a checkpoint as checkpoint.restart says, and writes checkpoints to checkpoint.dir, as
/// the program does.
struct CheckpointedTraining {
  /// Collective. Errors of train::find_restart() and train::restore().
  CheckpointedTraining(const deck::Config& config, MPI_Comm comm, const train::RunDescription& description,
                       const Thresholds& thresholds = {});
  CheckpointedTraining(const deck::Config& config, MPI_Comm comm, const Thresholds& thresholds = {})
      : CheckpointedTraining(config, comm, described(config), thresholds) {}

  /// Trains to step `end` and writes the checkpoints that are due.
  std::vector<train::StepResult> train_to(std::int64_t end);

  train::Say say();

  std::string said;        ///< on rank 0: all that the user was told
  std::int64_t first = 0;  ///< the next step
  Training training;
  train::CheckpointFolder folder;
  std::optional<train::Checkpoints> checkpoints;
};

}  // namespace shard8::test
