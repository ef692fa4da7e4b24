// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "profile/step_clock.hpp"
#include "tensor/exec.hpp"

namespace shard8::train {

/// The clock of what `exec` computes: the host's own where hosts compute; on a device events in its
/// stream, read when the step is over.
std::unique_ptr<profile::StepClock> make_clock(const tensor::Exec& exec);

}  // namespace shard8::train
