// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "train/assembly.hpp"

namespace shard8::bench {

/// Times every matrix product of the deck on its operands: with the algorithm that a run chooses, and with the best of
/// an exhaustive search over the library's algorithms. Collective over the ranks of `assembly`, whose files are open
/// and which is not started. The result is this rank's table with one product a line, the slowest first.
std::string gemm_table(train::Assembly& assembly);

}  // namespace shard8::bench
