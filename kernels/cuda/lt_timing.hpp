// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "kernels/cuda/lt_problem.hpp"
#include "tensor/cuda/event.hpp"

namespace shard8::kernels::cuda {

/// Times algorithms of one problem on a stream. All waits are for that stream.
class LtTimer {
 public:
  LtTimer(cublasLtHandle_t handle, cudaStream_t stream, LtProblem& problem, const LtGemmArgs& args);

  /// Whether the algorithm runs: cuBLASLt may refuse one that it has offered, which is no error. The
  /// first run loads code.
  bool runs(const LtCandidate& candidate);
  /// Microseconds of a run, the mean of `repeats` back to back.
  float time(const LtCandidate& candidate, int repeats);
  /// Microseconds of each, the median of five rounds in which all take turns, so that clocks that
  /// change meet all alike; 0 for those that do not run.
  std::vector<float> time_all(const std::vector<LtCandidate>& candidates);

 private:
  cublasLtHandle_t handle_;
  cudaStream_t stream_;
  LtProblem& problem_;
  LtGemmArgs args_;
  tensor::cuda::Event start_, stop_;
};

}  // namespace shard8::kernels::cuda
