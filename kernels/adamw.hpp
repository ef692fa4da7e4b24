// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "tensor/exec.hpp"
#include "tensor/tensor.hpp"

namespace shard8::kernels {

/// Scalars of one AdamW step (Loshchilov & Hutter 2019), in double; the kernel rounds to fp32.
struct AdamwScalars {
  double lr = 0, beta1 = 0.9, beta2 = 0.95, eps = 1e-8;
  double weight_decay = 0;    ///< 0 for parameters of one dimension
  double gradient_scale = 1;  ///< clipping: min(1, clip/(norm + 1e-6))
  std::int64_t step = 0;      ///< from 0; bias corrections use step + 1, in double on the host
};

/// One pass over a shard of any shape, all fp32: m ← β1·m + (1−β1)·g, v ← β2·v + (1−β2)·g²,
/// p ← p·(1 − lr·wd) − lr·m̂/(√v̂ + eps), g the scaled gradient.
void adamw_step(const tensor::Exec& exec, const tensor::Tensor& p, const tensor::Tensor& m, const tensor::Tensor& v,
                const tensor::Tensor& g, const AdamwScalars& scalars);

}  // namespace shard8::kernels
