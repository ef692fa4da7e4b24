// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "bench/overlap.hpp"
#include "kernels/libraries.hpp"
#include "train/assembly.hpp"

namespace shard8::bench {

using GemmRows = std::vector<kernels::Libraries::Choice>;

/// Times every matrix product of the deck on its operands: with the algorithm that a run chooses, and with the best of
/// an exhaustive search over the library's algorithms. Collective over the ranks of `assembly`, whose files are open
/// and which is not started. The result is of this rank, the slowest product first.
GemmRows bench_gemm(train::Assembly& assembly);

/// A table with one product a line.
std::string to_text(const GemmRows& rows);

/// Keys as in the JSON of `bench overlap`, as far as both have them: `scripts/plot` draws a roofline of either. Times
/// in ms; what was not timed or searched is null.
std::string to_json(const GemmRows& rows, const Measured& measured);

}  // namespace shard8::bench
