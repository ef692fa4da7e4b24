// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "tensor/exec.hpp"
#include "tensor/tensor.hpp"

namespace shard8::kernels {

/// Vocabulary-parallel softmax cross entropy (Shoeybi et al. 2019) as local parts; the caller reduces over the tensor
/// group between them. logits (T, V_local) fp32 are the columns
/// [first_row, first_row + valid) of the vocabulary; columns from `valid` on are padding and count
/// as −inf. targets (T) i32, weights (T) fp32 (0 for padding tokens).

/// row_max (T) = max over the valid columns, −inf if there are none. The caller then reduces it by MAX.
void cross_entropy_max(const tensor::Exec& exec, const tensor::Tensor& row_max, const tensor::Tensor& logits,
                       std::int64_t valid);

/// sums (2, T): row 0 = Σ exp(logit − row_max), row 1 = target's logit − row_max where this rank
/// owns the target, else 0. The caller then reduces them by SUM.
void cross_entropy_sums(const tensor::Exec& exec, const tensor::Tensor& sums, const tensor::Tensor& logits,
                        const tensor::Tensor& row_max, const tensor::Tensor& targets, std::int64_t first_row,
                        std::int64_t valid);

/// total += Σ_t weight·(log Σexp − target's shifted logit), in double, in a fixed order; total is a
/// double as 8 bytes of u8.
void cross_entropy_loss(const tensor::Exec& exec, const tensor::Tensor& total, const tensor::Tensor& sums,
                        const tensor::Tensor& weights);

/// dlogits (T, V_local), fp32 or bf16 (may be logits itself when fp32):
/// scale·weight·(exp(logit − row_max)/Σexp − [target]); padding columns get 0.
void cross_entropy_backward(const tensor::Exec& exec, const tensor::Tensor& dlogits, const tensor::Tensor& logits,
                            const tensor::Tensor& row_max, const tensor::Tensor& sums, const tensor::Tensor& targets,
                            const tensor::Tensor& weights, std::int64_t first_row, std::int64_t valid, float scale);

}  // namespace shard8::kernels
