// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "model/dims.hpp"
#include "model/products.hpp"
#include "tensor/arena.hpp"
#include "tensor/partial_sums.hpp"

namespace shard8::model {

/// What a norm keeps for its backward, (rows) fp32 each; mean is empty for RMSNorm.
struct NormStatistics {
  tensor::Tensor mean, rstd;
  static NormStatistics allocate(deck::Arch arch, std::int64_t rows, tensor::Arena& arena);
  /// The statistics of rows [first, first + n), in the same memory.
  NormStatistics slice(std::int64_t first, std::int64_t n) const {
    return {mean.empty() ? mean : mean.slice(first, n), rstd.slice(first, n)};
  }
};

/// `rmsnorm` (llama: weight only) and `layernorm` (gpt2: weight and bias) under one interface.
struct Norm {
  deck::Arch arch = deck::Arch::llama;
  float eps = 1e-5f;

  /// Writes y (rows, H) of x (rows, H), plain or cast to FP8, and the statistics. Writes the sum of x if x is still
  /// partial sums.
  void forward(const Context& context, const kernels::Outputs& y, const NormStatistics& statistics,
               const tensor::SumOfPartials& x, const Affine& w) const;
  /// Writes the same y as forward did, from the statistics that forward wrote.
  void recompute(const Context& context, const kernels::Outputs& y, const NormStatistics& statistics,
                 const tensor::Tensor& x, const Affine& w) const;
  /// Writes dx (rows, H) = residual (rows, H) + gradient of x; `residual` may be dx itself, or empty. Adds to dw
  /// (fp32).
  void backward(const Context& context, const tensor::Tensor& dx, const Affine& dw, const tensor::PartialSums& dy,
                const tensor::Tensor& x, const NormStatistics& statistics, const Affine& w,
                const tensor::Tensor& residual) const;
};

}  // namespace shard8::model
