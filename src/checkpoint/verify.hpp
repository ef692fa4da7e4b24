// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "checkpoint/inspect.hpp"

namespace shard8::checkpoint {

/// Why boxes do not cover a tensor exactly once, as the end of a message: a box that lies outside, two that overlap, or
/// elements in no box. Empty if they cover it. `boxes` have the tensor's shape and dtype; their order does not matter.
std::string problem_of_cover(const ManifestTensor& tensor, std::vector<PlacedBox> boxes, const Checkpoint& checkpoint);

/// Checks every byte of every file of a checkpoint against its digest, and that the boxes of each tensor cover it
/// exactly once. Each problem is a message with the file, what is wrong and what to do; none: the files are as they
/// were written. A file with a problem does not keep others from being checked.
std::vector<std::string> problems_of_files(const Checkpoint& checkpoint);

}  // namespace shard8::checkpoint
