// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <unordered_map>

#include "kernels/cuda/lt_algorithm.hpp"
#include "kernels/cuda/lt_problem.hpp"
#include "kernels/cuda/lt_search.hpp"

namespace shard8::kernels::cuda {

/// How a product that has no algorithm yet gets one.
enum class LtTuning : std::uint8_t {
  off,         ///< the heuristic's first guess that runs
  candidates,  ///< the fastest of the heuristic's guesses, timed on the operands of its first run, or of what is like
               ///< the fastest of them (refine) where that takes long
  exhaustive,  ///< the same, and all algorithms are timed too, to compare
};

/// Matrix products by cuBLASLt on the device that is current when it is made. A product that has an
/// algorithm is one look-up and one cublasLtMatmul, on any stream, and allocates nothing on host or
/// device. Not for two threads at once. All errors are base::Error.
class LtGemm {
 public:
  static constexpr int kCandidates = 16;

  LtGemm();
  ~LtGemm();
  LtGemm(const LtGemm&) = delete;
  LtGemm& operator=(const LtGemm&) = delete;

  /// While on, the first run of a product that was not timed so tries algorithms in its place, and
  /// waits for the stream: `out` that is accumulated in is then left with garbage. Times depend on the
  /// power that the numbers take: give those of training, not zeros.
  void set_tuning(LtTuning tuning, const LtSearchLimits& limits = {}) {
    tuning_ = tuning;
    limits_ = limits;
  }

  /// Takes over algorithms chosen elsewhere, in place of its own. One that does not run after all is
  /// replaced at its first run. False, and nothing taken, if they are another library's or another
  /// device's.
  [[nodiscard]] bool adopt(const LtAlgorithms& algorithms);

  /// Enqueues the product. Where no algorithm runs, an error of the environment.
  void run(cudaStream_t stream, const LtGemmKey& key, const LtGemmArgs& args);
  /// Whether the product has an algorithm, or gets one (by timing, as LtTuning says; `out` as there).
  /// False if none runs: status 15 when run counts as no.
  [[nodiscard]] bool try_prepare(cudaStream_t stream, const LtGemmKey& key, const LtGemmArgs& args);

  /// The choice made for a key; an error if there is none.
  const LtAlgorithm& algorithm(const LtGemmKey& key) const;
  /// All choices made, in the order of their keys.
  LtAlgorithms algorithms() const;
  /// What the exhaustive search found in detail; null if there was none.
  const LtSearch* searched(const LtGemmKey& key) const;

 private:
  struct Plan {
    LtProblem problem;
    LtAlgorithm chosen;
    bool ran = false;
  };

  Plan& plan_of(const LtGemmKey& key);
  bool is_tuned(const Plan& plan) const;
  bool tune(cudaStream_t stream, Plan& plan, const LtGemmArgs& args);
  bool run_first(cudaStream_t stream, Plan& plan, const LtGemmArgs& args);
  cublasStatus_t enqueue(cudaStream_t stream, Plan& plan, const LtGemmArgs& args);
  [[noreturn]] void none_runs(const LtGemmKey& key, const LtGemmArgs& args) const;

  cublasLtHandle_t handle_ = nullptr;
  LtTuning tuning_ = LtTuning::off;
  LtSearchLimits limits_;
  LtAlgorithms machine_;  // of an empty list
  std::unordered_map<LtGemmKey, Plan, LtGemmKeyHash> plans_;
  std::unordered_map<LtGemmKey, LtSearch, LtGemmKeyHash> searched_;
};

}  // namespace shard8::kernels::cuda
