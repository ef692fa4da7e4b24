// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/lt_problem.hpp"

#include <algorithm>
#include <array>

#include "base/error.hpp"
#include "kernels/cuda/library_check.hpp"

namespace shard8::kernels::cuda {
namespace {

using base::ExitCode;
using tensor::DType;

constexpr int kMostCandidates = 32;
constexpr int kMostAlgorithms = 256;

cudaDataType_t cuda_type(DType dtype) {
  switch (dtype) {
    case DType::fp32:
      return CUDA_R_32F;
    case DType::bf16:
      return CUDA_R_16BF;
    case DType::e4m3:
      return CUDA_R_8F_E4M3;
    case DType::e5m2:
      return CUDA_R_8F_E5M2;
    default:
      base::fail(ExitCode::failed, "cublaslt: no product of {}; allowed are fp32, bf16, e4m3 and e5m2",
                 tensor::name_of(dtype));
  }
}

bool is_block(LtScaling scaling) { return scaling == LtScaling::vec_128 || scaling == LtScaling::tile_128; }

template <class T>
void set(cublasLtMatmulDescOpaque_t& desc, cublasLtMatmulDescAttributes_t attribute, const T& value) {
  SHARD8_CUBLAS_CHECK(cublasLtMatmulDescSetAttribute(&desc, attribute, &value, sizeof(value)));
}

template <class T>
void set(cublasLtMatmulPreferenceOpaque_t& preference, cublasLtMatmulPreferenceAttributes_t attribute, const T& value) {
  SHARD8_CUBLAS_CHECK(cublasLtMatmulPreferenceSetAttribute(&preference, attribute, &value, sizeof(value)));
}

void set_scale_mode(cublasLtMatmulDescOpaque_t& desc, cublasLtMatmulDescAttributes_t attribute, LtScaling scaling) {
  if (!is_block(scaling)) return;  // one scale is the default, also for factors without scales
  const auto mode =
      static_cast<std::int32_t>(scaling == LtScaling::vec_128 ? CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F
                                                              : CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F);
  set(desc, attribute, mode);
}

// A row-major (outer, depth) is a column-major (depth, outer); a row-major (depth, outer) is a column-major (outer,
// depth).
void set_layout(cublasLtMatrixLayoutOpaque_t& layout, const LtFactor& factor, std::int64_t outer, std::int64_t depth) {
  const std::int64_t rows = factor.depth_contiguous ? depth : outer;
  const std::int64_t cols = factor.depth_contiguous ? outer : depth;
  SHARD8_CUBLAS_CHECK(cublasLtMatrixLayoutInit(&layout, cuda_type(factor.dtype), static_cast<std::uint64_t>(rows),
                                               static_cast<std::uint64_t>(cols), rows));
}

void check_pointer(const LtGemmKey& key, const char* name, const void* pointer, std::size_t alignment) {
  if (pointer == nullptr) base::fail(ExitCode::failed, "gemm {}: {} is null", describe(key), name);
  if (reinterpret_cast<std::uintptr_t>(pointer) % alignment != 0) {
    base::fail(ExitCode::failed, "gemm {}: {} is at {}, not a multiple of {} bytes", describe(key), name, pointer,
               alignment);
  }
}

void check_scale(const LtGemmKey& key, const char* name, const void* pointer, LtScaling scaling) {
  if (scaling == LtScaling::none && pointer != nullptr) {
    base::fail(ExitCode::failed, "gemm {}: {} is given; only e4m3 and e5m2 have scales", describe(key), name);
  }
  if (is_block(scaling)) check_pointer(key, name, pointer, 16);
  if (scaling == LtScaling::tensor && pointer != nullptr) check_pointer(key, name, pointer, sizeof(float));
}

}  // namespace

LtProblem::LtProblem(const LtGemmKey& key) : key_(key) {
  check_key(key);
  SHARD8_CUBLAS_CHECK(cublasLtMatmulDescInit(&desc_, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  set(desc_, CUBLASLT_MATMUL_DESC_TRANSA, key.right.depth_contiguous ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(desc_, CUBLASLT_MATMUL_DESC_TRANSB, key.left.depth_contiguous ? CUBLAS_OP_N : CUBLAS_OP_T);
  set_scale_mode(desc_, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, key.right.scaling);
  set_scale_mode(desc_, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, key.left.scaling);
  if (key.fast_accumulation) set(desc_, CUBLASLT_MATMUL_DESC_FAST_ACCUM, std::int8_t{1});
  if (key.bias) {
    set(desc_, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set(desc_, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, static_cast<std::int32_t>(cuda_type(bias_dtype(key))));
  }
  set_layout(a_, key.right, key.cols, key.depth);
  set_layout(b_, key.left, key.rows, key.depth);
  SHARD8_CUBLAS_CHECK(cublasLtMatrixLayoutInit(&d_, cuda_type(key.out), static_cast<std::uint64_t>(key.cols),
                                               static_cast<std::uint64_t>(key.rows), key.cols));
}

void LtProblem::check_args(const LtGemmKey& key, const LtGemmArgs& args) {
  const auto alignment = static_cast<std::size_t>(key.alignment);
  check_pointer(key, "out", args.out, alignment);
  check_pointer(key, "left", args.left, alignment);
  check_pointer(key, "right", args.right, alignment);
  check_scale(key, "left_scale_inv", args.left_scale_inv, key.left.scaling);
  check_scale(key, "right_scale_inv", args.right_scale_inv, key.right.scaling);
  if (key.bias) check_pointer(key, "bias", args.bias, 16);
  if (!key.bias && args.bias != nullptr) {
    base::fail(ExitCode::failed, "gemm {}: a bias is given, which the key does not have", describe(key));
  }
  if (key.addend) check_pointer(key, "addend", args.addend, alignment);
  if (!key.addend && args.addend != nullptr) {
    base::fail(ExitCode::failed, "gemm {}: an addend is given, which the key does not have", describe(key));
  }
  if (args.workspace_bytes > 0) check_pointer(key, "workspace", args.workspace, 256);
}

void LtProblem::bind(const LtGemmArgs& args) {
  if (key_.right.scaling != LtScaling::none) {
    set(desc_, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, args.right_scale_inv);
    set(desc_, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, args.left_scale_inv);
  }
  if (key_.bias) set(desc_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, args.bias);
}

std::vector<LtCandidate> LtProblem::candidates(cublasLtHandle_t handle, const LtGemmArgs& args, int most) {
  bind(args);  // the heuristic reads the alignment of the bias from its pointer
  cublasLtMatmulPreferenceOpaque_t preference{};
  SHARD8_CUBLAS_CHECK(cublasLtMatmulPreferenceInit(&preference));
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(args.workspace_bytes));
  for (const auto attribute :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    set(preference, attribute, static_cast<std::uint32_t>(key_.alignment));
  }
  // A sum is rounded once: partial sums of a split depth must not be rounded to bf16.
  const bool any_scheme = key_.out == DType::fp32;
  set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<std::uint32_t>(any_scheme ? CUBLASLT_REDUCTION_SCHEME_MASK : CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));

  std::array<cublasLtMatmulHeuristicResult_t, kMostCandidates> found{};
  int count = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(handle, &desc_, &a_, &b_, &d_, &d_, &preference,
                                                               std::min(most, kMostCandidates), found.data(), &count);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) return {};
  SHARD8_CUBLAS_CHECK(status);
  std::vector<LtCandidate> result;
  for (int i = 0; i < count; ++i) {
    const auto& offer = found[static_cast<std::size_t>(i)];
    if (offer.state == CUBLAS_STATUS_SUCCESS) result.push_back({offer.algo, offer.workspaceSize, {}});
  }
  return result;
}

std::vector<int> LtProblem::algorithm_ids(cublasLtHandle_t handle) const {
  std::vector<int> ids(kMostAlgorithms);
  int count = 0;
  SHARD8_CUBLAS_CHECK(cublasLtMatmulAlgoGetIds(handle, CUBLAS_COMPUTE_32F, CUDA_R_32F, cuda_type(key_.right.dtype),
                                               cuda_type(key_.left.dtype), cuda_type(key_.out), cuda_type(key_.out),
                                               kMostAlgorithms, ids.data(), &count));
  ids.resize(static_cast<std::size_t>(count));
  return ids;
}

std::optional<cublasLtMatmulAlgo_t> LtProblem::algorithm(cublasLtHandle_t handle, int id) const {
  cublasLtMatmulAlgo_t algorithm{};
  const cublasStatus_t status =
      cublasLtMatmulAlgoInit(handle, CUBLAS_COMPUTE_32F, CUDA_R_32F, cuda_type(key_.right.dtype),
                             cuda_type(key_.left.dtype), cuda_type(key_.out), cuda_type(key_.out), id, &algorithm);
  if (status != CUBLAS_STATUS_SUCCESS) return std::nullopt;
  return algorithm;
}

std::optional<std::size_t> LtProblem::check(cublasLtHandle_t handle, const cublasLtMatmulAlgo_t& algorithm) {
  cublasLtMatmulHeuristicResult_t result{};
  if (cublasLtMatmulAlgoCheck(handle, &desc_, &a_, &b_, &d_, &d_, &algorithm, &result) != CUBLAS_STATUS_SUCCESS ||
      result.state != CUBLAS_STATUS_SUCCESS) {
    return std::nullopt;
  }
  return result.workspaceSize;
}

cublasStatus_t LtProblem::enqueue(cublasLtHandle_t handle, cudaStream_t stream, const LtGemmArgs& args,
                                  const LtCandidate& candidate) {
  const bool adds = key_.accumulate || key_.addend;
  const void* const added = key_.addend ? args.addend : args.out;
  if (candidate.is_cutlass()) {
    const CutlassArgs all = {.out = args.out,
                             .left = args.left,
                             .right = args.right,
                             .left_scale_inv = args.left_scale_inv,
                             .right_scale_inv = args.right_scale_inv,
                             .added = adds ? added : nullptr};
    return enqueue_cutlass(stream, key_, all, candidate.cutlass) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
  }
  bind(args);
  const float one = 1.0f;
  const float beta = adds ? 1.0f : 0.0f;
  return cublasLtMatmul(handle, &desc_, &one, args.right, &a_, args.left, &b_, &beta, added, &d_, args.out, &d_,
                        &candidate.algorithm, args.workspace, args.workspace_bytes, stream);
}

}  // namespace shard8::kernels::cuda
