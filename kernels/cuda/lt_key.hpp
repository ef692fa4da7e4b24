// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "tensor/dtype.hpp"

namespace shard8::kernels::cuda {

/// How the elements of an FP8 factor share inverse scales, fp32 in device memory. The outer dimension of a factor is
/// kept in the result; the depth is summed over.
enum class LtScaling : std::uint8_t {
  none,      ///< no scales: fp32 or bf16
  tensor,    ///< one scale for the factor: (1); a null pointer stands for 1
  vec_128,   ///< one scale for 128 elements along the depth: (depth/128, outer), the outer index fastest
  tile_128,  ///< one scale for 128×128 elements: (outer/128, 4·ceil(depth/512)), the depth's block fastest, padded
};

/// One of the two factors of a product: a matrix (outer, depth).
struct LtFactor {
  tensor::DType dtype = tensor::DType::bf16;
  LtScaling scaling = LtScaling::none;
  /// Whether the factor is stored as (outer, depth), row-major. Otherwise the factor is stored transposed, as (depth,
  /// outer), row-major. cuBLASLt reads FP8 only as (outer, depth).
  bool depth_contiguous = true;

  auto operator<=>(const LtFactor&) const = default;
};

/// "none", "tensor", "vec_128", "tile_128".
std::string_view name_of(LtScaling scaling);

/// A product out (rows, cols) [+]= left (rows, depth) · right (cols, depth)ᵀ [+ bias (cols)] [+ addend (rows, cols)].
/// All matrices are dense and row-major; sums are accumulated in fp32. The key holds all that the choice of an
/// algorithm depends on. A key is plain bytes, so that ranks can send it.
struct LtGemmKey {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t depth = 0;
  LtFactor left;
  LtFactor right;
  tensor::DType out = tensor::DType::bf16;
  bool accumulate = false;  ///< for an fp32 output only
  bool bias = false;        ///< a bias is added; it has bias_dtype()
  bool addend = false;      ///< an addend of the output's dtype is added; not with accumulate
  /// Whether sums stay in the tensor cores, which keep fewer bits. Allowed for FP8 with tensor scaling only.
  bool fast_accumulation = false;
  /// The alignment in bytes: a power of two that divides the address of every matrix, from the element's size to 256.
  std::int32_t alignment = 256;

  auto operator<=>(const LtGemmKey&) const = default;
};
static_assert(std::is_trivially_copyable_v<LtGemmKey>);

/// The keys of the three products of a linear layer of T tokens, K inputs, N outputs. Scaling and dtype of the factors
/// are taken from the arguments; their layouts are set here. fp32 and bf16 are read as stored. FP8 factors are read
/// from copies with the depth contiguous: dgrad reads wᵀ (K, N), wgrad reads dyᵀ (N, T) and xᵀ (K, T).
///
/// y (T, N) = x (T, K) · w (N, K)ᵀ
LtGemmKey fprop_key(std::int64_t tokens, std::int64_t inputs, std::int64_t outputs, tensor::DType y, LtFactor x,
                    LtFactor w);
/// dx (T, K) = dy (T, N) · w (N, K)
LtGemmKey dgrad_key(std::int64_t tokens, std::int64_t inputs, std::int64_t outputs, tensor::DType dx, LtFactor dy,
                    LtFactor w);
/// dw (N, K) = dy (T, N)ᵀ · x (T, K)
LtGemmKey wgrad_key(std::int64_t tokens, std::int64_t inputs, std::int64_t outputs, tensor::DType dw, LtFactor dy,
                    LtFactor x);

/// Throws base::Error, naming the product and the rule, if cuBLASLt documents the product as impossible on compute
/// capability 9.0, or if an FP8 matrix is not made of whole blocks.
void check_key(const LtGemmKey& key);

/// The dtype of a bias: bf16 for FP8 factors, else the output's dtype (cuBLASLt's rule).
tensor::DType bias_dtype(const LtGemmKey& key);
/// How many inverse scales a factor of this outer dimension and depth has, padding included.
std::int64_t scale_count(LtScaling scaling, std::int64_t outer, std::int64_t depth);
/// The floating-point operations of a product: 2·rows·cols·depth.
double flops(const LtGemmKey& key);
/// The key as text: "bf16 (8192, 6144) += e4m3/tensor (8192, 4096) x e4m3/tensor (6144, 4096), bias, addend, fast
/// accumulation".
std::string describe(const LtGemmKey& key);

struct LtGemmKeyHash {
  std::size_t operator()(const LtGemmKey& key) const;
};

/// How CUTLASS computes a product (cutlass_gemm.hpp): in which order its blocks take the tiles of the output.
struct CutlassConfig {
  std::int32_t version = 0;  ///< of CUTLASS, 450 for 4.5.0; 0: cuBLASLt computes the product
  std::int32_t swizzle = 1;  ///< how many tiles lie side by side in a band of tiles: 1, 2, 4 or 8
  bool along_rows = true;  ///< neighbouring tiles follow each other down the rows of the output, else along its columns

  auto operator<=>(const CutlassConfig&) const = default;
};

/// The algorithm chosen for a product, and what was measured for the choice. Plain bytes, so that ranks can send it.
/// Times are of one run.
struct LtAlgorithm {
  LtGemmKey key;
  CutlassConfig cutlass{};               ///< if its version is not 0, CUTLASS computes the product
  std::array<std::uint64_t, 8> bytes{};  ///< cublasLtMatmulAlgo_t; zeros where CUTLASS computes the product
  std::uint64_t workspace_bytes = 0;
  float microseconds = 0;        ///< of the chosen algorithm; 0: not timed, it is the heuristic's first guess that ran
  float first_microseconds = 0;  ///< of the heuristic's first guess; 0 if that does not run
  float searched_microseconds = 0;  ///< of the best algorithm of the exhaustive search; 0: no search
  std::int32_t index = 0;    ///< the number of the fastest guess among the heuristic's guesses, before it was refined
  std::int32_t offered = 0;  ///< how many guesses the heuristic offered
  std::int32_t refused = 0;  ///< how many of the guesses did not run, although offered

  /// Whether an algorithm was chosen.
  bool is_chosen() const { return offered > 0 || cutlass.version > 0; }
};
static_assert(std::is_trivially_copyable_v<LtAlgorithm>);

/// Algorithms for one version of cuBLASLt on one kind of device, some of them CUTLASS's. A plan file keeps them. All
/// ranks must use the same ones: each rank could time another algorithm as the fastest, and would then sum in another
/// order.
struct LtAlgorithms {
  std::uint64_t library = 0;  ///< cublasLtGetVersion()
  std::int32_t compute_capability = 0;
  std::int32_t multiprocessors = 0;
  std::vector<LtAlgorithm> list;

  bool same_machine(const LtAlgorithms& other) const {
    return library == other.library && compute_capability == other.compute_capability &&
           multiprocessors == other.multiprocessors;
  }
};

/// The algorithms as text: a line "cublaslt ..." that names library and device, then one line "gemm ..." for each
/// algorithm.
std::string to_text(const LtAlgorithms& algorithms);
/// The algorithms of a text of to_text(). Lines that begin with another word are skipped. Throws base::Error, which
/// quotes the line, if a line is malformed.
LtAlgorithms algorithms_of_text(std::string_view text);

}  // namespace shard8::kernels::cuda
