// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/check/outputs.hpp"

namespace shard8::kernels {

/// Throws Error(failed) unless the tensors of an RMSNorm over x (T, H) have the counts that kernels/norm.hpp states.
inline void require_rmsnorm(const char* kernel, const Outputs& y, const tensor::Tensor& rstd, const tensor::Tensor& x,
                            const tensor::Tensor& weight) {
  require_outputs(kernel, "y", y, x.rows() * x.cols());
  require_count(kernel, "rstd", rstd, x.rows());
  require_count(kernel, "weight", weight, x.cols());
}

/// As require_rmsnorm, for a LayerNorm.
inline void require_layernorm(const char* kernel, const Outputs& y, const tensor::Tensor& mean,
                              const tensor::Tensor& rstd, const tensor::Tensor& x, const tensor::Tensor& weight,
                              const tensor::Tensor& bias) {
  require_outputs(kernel, "y", y, x.rows() * x.cols());
  require_count(kernel, "mean", mean, x.rows());
  require_count(kernel, "rstd", rstd, x.rows());
  require_count(kernel, "weight", weight, x.cols());
  require_count(kernel, "bias", bias, x.cols());
}

}  // namespace shard8::kernels
