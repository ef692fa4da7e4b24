// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "train/setup.hpp"

namespace shard8::train {

/// Bytes of kernels::Workspace::memory: the most that any operation of a step needs. Found by recording a layer of
/// each kind, the embedding and the head.
std::size_t workspace_bytes(const Setup& setup);

}  // namespace shard8::train
