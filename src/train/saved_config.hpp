// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "checkpoint/directory.hpp"
#include "deck/config.hpp"

namespace shard8::train {

/// What a checkpoint's deck says of the model and how it is trained: the groups model, moe, precision, fp8 and
/// optimizer, and of the others the mesh, the batch and the steps; all else is a default. model.init_file is empty and
/// the data are synthetic, so that no file is looked for. Error(checkpoint) if the keys are not those of a deck of this
/// program.
deck::Config saved_config(const checkpoint::Checkpoint& checkpoint);

}  // namespace shard8::train
