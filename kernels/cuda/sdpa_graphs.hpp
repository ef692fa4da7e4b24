// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/cudnn_graph.hpp"
#include "kernels/cuda/sdpa_parts.hpp"

namespace shard8::kernels::cuda {

/// The tensors in memory of attention's graphs, by what they are.
enum SdpaId : std::int64_t { kQ = 1, kK, kV, kO, kLse, kDo, kDq, kDk, kDv, kDelta, kDqSum };

/// What cuDNN's fused engines recognize as attention, in the order in which they look for it: scores,
/// scale, mask, softmax by a maximum and a sum, product with the values; and the gradients of that
/// with the probabilities recomputed from the log-sum-exp. q, k, v and their gradients are BF16
/// slices of rows [q heads | k heads | v heads], o and its gradient BF16 rows of heads; lse FP32.
Graph sdpa_forward_graph(const SdpaPart& part);

/// With kDelta FP32 (batch, heads, seq), the sums of dout·o, and, unless deterministic, kDqSum FP32
/// (batch, heads, seq, head_dim) as scratch in memory. Deterministic gradients keep the gradients of
/// all scores of the part in BF16 in the plan's workspace.
Graph sdpa_backward_graph(const SdpaPart& part);

}  // namespace shard8::kernels::cuda
