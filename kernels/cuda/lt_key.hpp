// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "tensor/dtype.hpp"

namespace shard8::kernels::cuda {

/// How the elements of an FP8 factor share inverse scales, fp32 in device memory. Outer is the
/// dimension that is kept, depth the one that is summed over.
enum class LtScaling : std::uint8_t {
  none,      ///< fp32 or bf16: there are none
  tensor,    ///< one of all: (1); a null pointer stands for 1
  vec_128,   ///< one of 128 along the depth: (depth/128, outer), the outer index fastest
  tile_128,  ///< one of 128×128: (outer/128, 4·ceil(depth/512)), the depth's block fastest and padded
};

/// One of the two matrices that are multiplied, (outer, depth).
struct LtFactor {
  tensor::DType dtype = tensor::DType::bf16;
  LtScaling scaling = LtScaling::none;
  /// True: (outer, depth) row-major. False: the transposed, (depth, outer), row-major. FP8 is read
  /// only the first way.
  bool depth_contiguous = true;

  auto operator<=>(const LtFactor&) const = default;
};

/// "none", "tensor", "vec_128", "tile_128".
std::string_view name_of(LtScaling scaling);

/// A product out (rows, cols) [+]= left (rows, depth) · right (cols, depth)ᵀ [+ bias (cols)] [+ addend
/// (rows, cols)], dense and row-major, accumulated in fp32: all that the choice of an algorithm depends
/// on. Plain bytes, so that ranks can send it.
struct LtGemmKey {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t depth = 0;
  LtFactor left;
  LtFactor right;
  tensor::DType out = tensor::DType::bf16;
  bool accumulate = false;  ///< in fp32 only
  bool bias = false;        ///< of bias_dtype()
  bool addend = false;      ///< of the output's dtype; not with accumulate
  /// FP8 with tensor scaling only: sums stay in the tensor cores, which keep fewer bits.
  bool fast_accumulation = false;
  /// Bytes, a power of two from the element's size to 256, that divide every matrix's address.
  std::int32_t alignment = 256;

  auto operator<=>(const LtGemmKey&) const = default;
};
static_assert(std::is_trivially_copyable_v<LtGemmKey>);

/// The three products of a linear layer of T tokens, K inputs, N outputs. A factor's scaling and
/// dtype are taken from what is given, its layout is set: fp32 and bf16 are read as they lie; FP8
/// from copies with the depth contiguous, so dgrad reads wᵀ (K, N), wgrad dyᵀ (N, T) and xᵀ (K, T).
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

/// Throws base::Error, naming the product and the rule, for what cuBLASLt documents as impossible on
/// compute capability 9.0, and for FP8 matrices that are not whole blocks.
void check_key(const LtGemmKey& key);

/// bf16 for FP8 factors, the output's dtype otherwise (cuBLASLt's rule).
tensor::DType bias_dtype(const LtGemmKey& key);
/// Number of inverse scales of a factor of this outer dimension and depth, padding included.
std::int64_t scale_count(LtScaling scaling, std::int64_t outer, std::int64_t depth);
/// 2·rows·cols·depth
double flops(const LtGemmKey& key);
/// "bf16 (8192, 6144) += e4m3/tensor (8192, 4096) x e4m3/tensor (6144, 4096), bias, addend, fast accumulation"
std::string describe(const LtGemmKey& key);

struct LtGemmKeyHash {
  std::size_t operator()(const LtGemmKey& key) const;
};

}  // namespace shard8::kernels::cuda
