// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "app/job.hpp"
#include "app/stop.hpp"
#include "deck/load.hpp"

namespace shard8::app {

/// The keys that a deck gives and a skeleton run does not use: model.init_file, data.path, those of validation,
/// output.metrics, output.replace, and those of the groups verify and checkpoint.
std::vector<std::string> unused_by_skeleton(const deck::LoadResult& deck);

/// Refuses, with Error(environment), an output.dir that holds the files of a training, or a summary of anything but a
/// skeleton.
void require_no_training(const deck::Config& config);

/// One rank's skeleton run, from the deck to the report: steps without data, loss and checkpoints. Returns the exit
/// code. Collective. Errors as those of a run.
int skeleton_run(Job& job, const StopRequests& requests, std::vector<std::string> command);

}  // namespace shard8::app
