// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cublasLt.h>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/cuda/cutlass_gemm.hpp"
#include "kernels/cuda/lt_key.hpp"
#include "kernels/planned/device_memory.hpp"
#include "tensor/cuda/device.hpp"

namespace shard8::kernels::cuda {

/// The device memory of one product. `out` is read if LtGemmKey::accumulate, and overwritten.
struct LtGemmArgs {
  void* out = nullptr;
  const void* left = nullptr;
  const void* right = nullptr;
  const float* left_scale_inv = nullptr;   ///< scale_count() floats, laid out as LtScaling says
  const float* right_scale_inv = nullptr;  ///< as left_scale_inv; both 16-byte aligned if they are block scales
  const void* bias = nullptr;              ///< 16-byte aligned
  const void* addend = nullptr;            ///< may be `out`
  void* workspace = nullptr;               ///< 256-byte aligned; products that run at once need one each
  std::size_t workspace_bytes = 0;         ///< kLtWorkspaceBytes is enough
};

/// An algorithm for a product, and the bytes of workspace that it needs.
struct LtCandidate {
  cublasLtMatmulAlgo_t algorithm{};
  std::size_t workspace_bytes = 0;
  CutlassConfig cutlass{};  ///< if its version is not 0, CUTLASS computes the product, and the rest means nothing

  bool is_cutlass() const { return cutlass.version > 0; }
};

/// Whether the library says that this algorithm cannot do this product.
constexpr bool refuses(cublasStatus_t status) {
  return status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE;
}

/// cuBLASLt's description of a product. cuBLASLt is column-major. The row-major product out = left · rightᵀ is the
/// column-major outᵀ (cols, rows) = A · B with A = right and B = left.
class LtProblem {
 public:
  explicit LtProblem(const LtGemmKey& key);

  const LtGemmKey& key() const { return key_; }

  /// Throws base::Error unless the pointers are given and aligned as the key says.
  static void check_args(const LtGemmKey& key, const LtGemmArgs& args);

  /// Up to `most` algorithms that the heuristic offers, best guess first; empty if it offers none.
  std::vector<LtCandidate> candidates(cublasLtHandle_t handle, const LtGemmArgs& args, int most);

  /// The ids of the algorithms that cuBLASLt has for these dtypes, whatever the shape.
  std::vector<int> algorithm_ids(cublasLtHandle_t handle) const;
  /// The algorithm with this id, not yet configured; nothing if cuBLASLt refuses it.
  std::optional<cublasLtMatmulAlgo_t> algorithm(cublasLtHandle_t handle, int id) const;
  /// Bytes of workspace that a configured algorithm needs; nothing if it cannot compute this product.
  std::optional<std::size_t> check(cublasLtHandle_t handle, const cublasLtMatmulAlgo_t& algorithm);

  /// Enqueues the product with the candidate's algorithm, in cuBLASLt or CUTLASS. Allocates nothing on the host.
  cublasStatus_t enqueue(cublasLtHandle_t handle, cudaStream_t stream, const LtGemmArgs& args,
                         const LtCandidate& candidate);

 private:
  void bind(const LtGemmArgs& args);

  LtGemmKey key_;
  cublasLtMatmulDescOpaque_t desc_{};
  cublasLtMatrixLayoutOpaque_t a_{}, b_{}, d_{};
};

/// Times algorithms for one problem on a stream. Every function overwrites args.out and waits for the stream.
class LtTimer {
 public:
  LtTimer(cublasLtHandle_t handle, cudaStream_t stream, LtProblem& problem, const LtGemmArgs& args);

  /// Whether the algorithm runs. A library may refuse an algorithm that it has offered; this is not an error. The first
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

/// How long a search may take for one product. Configurations that a limit leaves out are counted.
struct LtSearchLimits {
  double check_seconds = 10.0;  ///< for querying cuBLASLt which configurations are supported
  double run_seconds = 10.0;    ///< for running each supported configuration once
};

/// The result of a search over the configurations of all of cuBLASLt's algorithms.
struct LtSearch {
  LtCandidate best;                 ///< the fastest; the baseline if nothing is faster
  float microseconds = 0;           ///< of `best`
  float baseline_microseconds = 0;  ///< of the baseline, timed in turns with `best`
  std::int64_t possible = 0;        ///< how many configurations of tile, stages, cluster, swizzle and option there are
  std::int64_t checked = 0;         ///< how many of them cuBLASLt was asked about
  std::int64_t supported = 0;       ///< how many of those compute this product in the workspace given
  std::int64_t timed = 0;           ///< how many of those were run

  /// Whether no time limit was reached.
  bool complete() const { return checked == possible && timed == supported; }
};

/// Searches all configurations: runs each once; then runs the fastest with the depth split in several ways; then times
/// the fastest of all and `baseline` in turns. Overwrites args.out and waits for the stream.
LtSearch search(cublasLtHandle_t handle, cudaStream_t stream, LtProblem& problem, const LtGemmArgs& args,
                const LtCandidate& baseline, const LtSearchLimits& limits);

struct LtTimed {
  LtCandidate candidate;
  float microseconds = 0;
};

/// Refines a choice. `tried` are timed algorithms. Configurations that differ from the few fastest of them only in
/// cluster, swizzle or option are run once each, for `run_seconds` at most. Then the fastest of these and the fastest
/// of `tried` are timed in turns, and the fastest is returned. Overwrites args.out and waits for the stream.
LtTimed refine(cublasLtHandle_t handle, cudaStream_t stream, LtProblem& problem, const LtGemmArgs& args,
               std::vector<LtTimed> tried, double run_seconds);

/// The algorithm as text, with cuBLASLt's numbers: "algorithm 66, tile 20, stages 36, split 1, scheme 0, swizzle 0,
/// option 0, cluster 3"; or "cutlass 450, swizzle 2, along rows".
std::string describe(const LtCandidate& candidate);

}  // namespace shard8::kernels::cuda
