// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "deck/config.hpp"
#include "deck/load.hpp"

namespace shard8::app {

// What one process can find out before a run. Each function leaves files and folders as they were.

/// Error(environment) unless the files that rank 0 of a run writes to output.dir can be written.
void require_output(const deck::Config& config);

/// Error(environment) unless checkpoint.dir, if there is one, can be made and written to.
void require_checkpoint_dir(const deck::Config& config);

/// All that one process can find out about the start of a run, in the order and with the words and codes of a run
/// (refusals()). Returns lines for the user: the data, the weights and where the run would start. Warnings go to
/// standard error.
std::string check_start(const deck::LoadResult& deck);

}  // namespace shard8::app
