// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fsdp/unit_buffers.hpp"
#include "model/operations.hpp"
#include "train/setup.hpp"

namespace shard8::train {

/// Which steps of a run do not do what all others do.
struct StepOfRun {
  bool first = false;  ///< no step before it has gathered for it, and delayed scaling has no history
  bool last = false;   ///< it gathers for no step after it
};

/// What the rank at setup.place does in one training step: the same as Trainer::step, as data. Pure: `buffers` may be
/// laid out in measuring arenas. It leaves out copies between host and device memory (tokens, loss and norm).
model::Operations step_operations(const Setup& setup, const fsdp::UnitBuffers& buffers, const StepOfRun& step = {});
/// The same, handed on one by one: Operations::list is not made.
void for_each_operation(const Setup& setup, const fsdp::UnitBuffers& buffers, const StepOfRun& step,
                        const model::OperationWriter::Sink& sink);

}  // namespace shard8::train
