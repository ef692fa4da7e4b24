// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/cuda/lt_problem.hpp"

namespace shard8::kernels::cuda {

/// How long a search may take for one product. What is left out then is counted.
struct LtSearchLimits {
  double check_seconds = 10.0;  ///< asking cuBLASLt which configurations do the product
  double run_seconds = 10.0;    ///< running each of those once
};

/// What a search over the configurations of all of cuBLASLt's algorithms found.
struct LtSearch {
  LtCandidate best;                 ///< the baseline, if nothing is faster
  float microseconds = 0;           ///< of the best
  float baseline_microseconds = 0;  ///< in the same rounds
  std::int64_t possible = 0;        ///< configurations: tile, stages, cluster, swizzle and option
  std::int64_t checked = 0;         ///< of them were checked
  std::int64_t supported = 0;       ///< of those do this product in the workspace given
  std::int64_t timed = 0;           ///< of those were run

  /// No limit cut it short.
  bool complete() const { return checked == possible && timed == supported; }
};

/// Runs every configuration once, then the fastest with the depth split in several ways, then the
/// fastest of all and the baseline in turns. Overwrites args.out and waits for the stream.
LtSearch search(cublasLtHandle_t handle, cudaStream_t stream, LtProblem& problem, const LtGemmArgs& args,
                const LtCandidate& baseline, const LtSearchLimits& limits);

struct LtTimed {
  LtCandidate candidate;
  float microseconds = 0;
};

/// The fastest of `tried`, which were timed, and of what differs from the few fastest of them in cluster, swizzle
/// or option alone: each of those is run once, for `run_seconds` at most, then the fastest in turns. Else as search.
LtTimed refine(cublasLtHandle_t handle, cudaStream_t stream, LtProblem& problem, const LtGemmArgs& args,
               std::vector<LtTimed> tried, double run_seconds);

/// "algorithm 66, tile 20, stages 36, split 1, scheme 0, swizzle 0, option 0, cluster 3": cuBLASLt's numbers.
std::string describe(const cublasLtMatmulAlgo_t& algorithm);

}  // namespace shard8::kernels::cuda
