// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fsdp/unit_buffers.hpp"
#include "model/operations.hpp"
#include "train/setup.hpp"

namespace shard8::train {

/// The place of a step in its run. The first and the last step differ from all others.
struct StepOfRun {
  bool first = false;  ///< no step before it has gathered for it, and delayed scaling has no history
  bool last = false;   ///< it gathers for no step after it
};

/// The operations of Trainer::step on the rank at setup.place. Nothing is computed or communicated, and the memory of
/// `buffers` is not touched: it may be laid out in measuring arenas. Copies between host and device memory (tokens,
/// loss and norm) are not listed.
model::Operations step_operations(const Setup& setup, const fsdp::UnitBuffers& buffers, const StepOfRun& step = {});
/// Passes the same operations to `sink`, one by one, so that no list takes memory.
void for_each_operation(const Setup& setup, const fsdp::UnitBuffers& buffers, const StepOfRun& step,
                        const model::OperationWriter::Sink& sink);

}  // namespace shard8::train
