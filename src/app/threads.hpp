// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/node.hpp"

namespace shard8::app {

/// Threads of a rank: OMP_NUM_THREADS, or the node's cores divided by its ranks, at least 1.
/// Error(environment) when the variable is no positive number.
int choose_threads(const comm::Node& node);

/// OMP_NUM_THREADS, or 0 when it is not set.
int threads_from_environment();

}  // namespace shard8::app
