// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "comm/communicator.hpp"
#include "deck/load.hpp"
#include "profile/figures.hpp"
#include "tensor/runtime.hpp"
#include "train/stopping.hpp"

namespace shard8::app {

/// Error(deck), with all reasons, when the deck has nothing to compare: overlap.enable is false, all its methods are
/// off, mesh.tensor is 1, or run.steps is less than a block. `name`: of the deck.
void check_compare_off(const std::string& name, const deck::LoadResult& deck);

/// Measures the step time of the deck and of the same deck with overlap.enable = false, in blocks of steps in turns:
/// `pairs` of them, 1 or more.
///
/// Each block trains from random weights and step 0 in an assembly of its own, which is freed before the next one is
/// made. It reads the deck's data, and writes no metrics and no checkpoints. When the `sources` of a rank ask it to
/// stop, all ranks end the comparison after the step under way, and the result has only the pairs of blocks that were
/// complete. Collective. The deck must have passed check_compare_off(). Errors of train::Assembly.
profile::CompareOff compare_off(const deck::Config& config, int pairs, const comm::Communicator& world,
                                const tensor::Runtime& runtime, const train::Stopping::Sources& sources);

}  // namespace shard8::app
