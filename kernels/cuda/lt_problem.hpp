// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cublasLt.h>

#include <cstddef>
#include <optional>
#include <vector>

#include "kernels/cuda/cutlass_gemm.hpp"
#include "kernels/cuda/lt_key.hpp"
#include "kernels/planned/device_memory.hpp"

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

}  // namespace shard8::kernels::cuda
