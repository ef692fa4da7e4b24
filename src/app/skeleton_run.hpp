// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "app/job.hpp"
#include "app/stop.hpp"
#include "deck/load.hpp"

namespace shard8::app {

/// The keys of a deck that it gives and a skeleton run does not use: model.init_file, and those of data.path, verify
/// and checkpoint.
std::vector<std::string> unused_by_skeleton(const deck::LoadResult& deck);

/// Refuses, with Error(deck), an output.dir that holds the files of a training.
void require_no_training(const deck::Config& config);

/// One rank's skeleton run, from the deck to the report: steps without data, loss and checkpoints. Returns the exit
/// code. Collective. Errors as those of a run.
int skeleton_run(Job& job, const StopRequests& requests, std::vector<std::string> command);

}  // namespace shard8::app
