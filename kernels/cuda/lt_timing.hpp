// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "kernels/cuda/lt_problem.hpp"
#include "tensor/cuda/stream.hpp"

namespace shard8::kernels::cuda {

/// Times algorithms for one problem on a stream. Every function overwrites args.out and waits for the stream.
class LtTimer {
 public:
  LtTimer(cublasLtHandle_t handle, cudaStream_t stream, LtProblem& problem, const LtGemmArgs& args);

  /// Whether the algorithm runs. cuBLASLt may refuse an algorithm that it has offered; this is not an error. The first
  /// run of an algorithm also loads its code.
  bool runs(const LtCandidate& candidate);
  /// Microseconds of one run: the mean of `repeats` runs, one right after the other.
  float time(const LtCandidate& candidate, int repeats);
  /// Microseconds of one run of each candidate; 0 for candidates that do not run. Each time is the median of five
  /// rounds. In each round the candidates take turns, so changes of the clock rate affect all alike.
  std::vector<float> time_all(const std::vector<LtCandidate>& candidates);

 private:
  cublasLtHandle_t handle_;
  cudaStream_t stream_;
  LtProblem& problem_;
  LtGemmArgs args_;
  tensor::cuda::Event start_, stop_;
};

}  // namespace shard8::kernels::cuda
