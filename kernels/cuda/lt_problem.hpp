// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cublasLt.h>

#include <cstddef>
#include <optional>
#include <vector>

#include "kernels/cuda/lt_key.hpp"

namespace shard8::kernels::cuda {

/// Device memory of one product. `out` is read with LtGemmKey::accumulate, overwritten otherwise.
struct LtGemmArgs {
  void* out = nullptr;
  const void* left = nullptr;
  const void* right = nullptr;
  const float* left_scale_inv = nullptr;   ///< scale_count() of LtScaling
  const float* right_scale_inv = nullptr;  ///< 16-byte aligned with block scales
  const void* bias = nullptr;              ///< 16-byte aligned
  const void* addend = nullptr;            ///< may be `out`
  void* workspace = nullptr;               ///< 256-byte aligned; products in flight at once need one each
  std::size_t workspace_bytes = 0;         ///< kLtWorkspaceBytes is enough
};

/// What cuBLASLt can use on compute capability 9.0.
inline constexpr std::size_t kLtWorkspaceBytes = std::size_t{32} << 20;

/// An algorithm that the heuristic offers, best guess first.
struct LtCandidate {
  cublasLtMatmulAlgo_t algorithm{};
  std::size_t workspace_bytes = 0;
};

/// Whether cuBLASLt says that this algorithm cannot do this product.
constexpr bool refuses(cublasStatus_t status) {
  return status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE;
}

/// cuBLASLt's description of a product. Row-major out = left · rightᵀ is, column-major,
/// outᵀ (cols, rows) = A · B with A = right and B = left.
class LtProblem {
 public:
  explicit LtProblem(const LtGemmKey& key);

  const LtGemmKey& key() const { return key_; }

  /// Throws base::Error unless the pointers are what the key says.
  static void check_args(const LtGemmKey& key, const LtGemmArgs& args);

  /// Up to `most` candidates, best guess first; empty where cuBLASLt has none.
  std::vector<LtCandidate> candidates(cublasLtHandle_t handle, const LtGemmArgs& args, int most);

  /// The algorithms that cuBLASLt has for these dtypes, whatever the shape.
  std::vector<int> algorithm_ids(cublasLtHandle_t handle) const;
  /// One of them, not yet configured; nothing where cuBLASLt refuses it.
  std::optional<cublasLtMatmulAlgo_t> algorithm(cublasLtHandle_t handle, int id) const;
  /// Bytes of workspace that a configured algorithm needs; nothing where it cannot do this product.
  std::optional<std::size_t> check(cublasLtHandle_t handle, const cublasLtMatmulAlgo_t& algorithm);

  /// Enqueues the product. Allocates nothing on the host.
  cublasStatus_t enqueue(cublasLtHandle_t handle, cudaStream_t stream, const LtGemmArgs& args,
                         const cublasLtMatmulAlgo_t& algorithm);

 private:
  void bind(const LtGemmArgs& args);

  LtGemmKey key_;
  cublasLtMatmulDescOpaque_t desc_{};
  cublasLtMatrixLayoutOpaque_t a_{}, b_{}, d_{};
};

}  // namespace shard8::kernels::cuda
