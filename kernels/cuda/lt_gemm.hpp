// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <unordered_map>

#include "kernels/cuda/lt_key.hpp"
#include "kernels/cuda/lt_problem.hpp"

namespace shard8::kernels::cuda {

/// How an algorithm is chosen for a product that has none yet.
enum class LtTuning : std::uint8_t {
  off,         ///< the heuristic's first guess that runs
  candidates,  ///< the fastest of the heuristic's guesses, timed on the operands of the product's first run; for long
               ///< products also the fastest of algorithms similar to the best guesses (refine); CUTLASS's kernel if
               ///< there is one and it is faster
  exhaustive,  ///< as candidates; all algorithms are timed too, only to compare: the choice is the same
};

/// Matrix products by cuBLASLt, and where it is faster by CUTLASS (cutlass_gemm.hpp), on the device that is current at
/// construction. A product that has an algorithm takes one look-up and one call of its library, on any stream, and
/// allocates nothing on host or device. Two threads must not use one object at once. All errors are base::Error.
class LtGemm {
 public:
  static constexpr int kCandidates = 16;

  LtGemm();
  ~LtGemm();
  LtGemm(const LtGemm&) = delete;
  LtGemm& operator=(const LtGemm&) = delete;

  /// Sets how algorithms are chosen. While tuning is not off, the first run of a product that was not timed in this way
  /// runs several algorithms and waits for the stream. An `out` that accumulates holds garbage afterwards. Times depend
  /// on the values: they change the power that the device takes. So operands should be those of training, not zeros.
  void set_tuning(LtTuning tuning, const LtSearchLimits& limits = {}) {
    tuning_ = tuning;
    limits_ = limits;
  }

  /// Adopts algorithms that were chosen elsewhere, in place of its own. An algorithm that does not run is replaced at
  /// its first run. Returns false, and changes nothing, if the algorithms are for another version of cuBLASLt or
  /// another kind of device, or if one of them is another version of CUTLASS's.
  [[nodiscard]] bool adopt(const LtAlgorithms& algorithms);

  /// Enqueues the product. Throws Error(environment) if no algorithm runs.
  void run(cudaStream_t stream, const LtGemmKey& key, const LtGemmArgs& args);
  /// Chooses an algorithm for the product if it has none. The function then runs the product as LtTuning says, and
  /// `out` is overwritten. Returns false if no algorithm runs; status 15 (not supported) counts as not running.
  [[nodiscard]] bool try_prepare(cudaStream_t stream, const LtGemmKey& key, const LtGemmArgs& args);

  /// The algorithm chosen for a key. Throws base::Error if the product was never run.
  const LtAlgorithm& algorithm(const LtGemmKey& key) const;
  /// All chosen algorithms, in the order of their keys.
  LtAlgorithms algorithms() const;
  /// The result of the exhaustive search for a key; null if there was no search.
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
  void try_cutlass(LtTimer& timer, LtAlgorithm& chosen) const;
  bool run_first(cudaStream_t stream, Plan& plan, const LtGemmArgs& args);
  cublasStatus_t enqueue(cudaStream_t stream, Plan& plan, const LtGemmArgs& args);
  [[noreturn]] void none_runs(const LtGemmKey& key, const LtGemmArgs& args) const;

  cublasLtHandle_t handle_ = nullptr;
  LtTuning tuning_ = LtTuning::off;
  LtSearchLimits limits_;
  LtAlgorithms machine_;  // library and device of this object; the list is empty
  std::unordered_map<LtGemmKey, Plan, LtGemmKeyHash> plans_;
  std::unordered_map<LtGemmKey, LtSearch, LtGemmKeyHash> searched_;
};

}  // namespace shard8::kernels::cuda
