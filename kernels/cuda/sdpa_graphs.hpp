// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/cudnn_graph.hpp"
#include "kernels/planned/device_memory.hpp"

namespace shard8::kernels::cuda {

/// The ids of the tensors in memory of attention's graphs.
enum SdpaId : std::int64_t { kQ = 1, kK, kV, kO, kLse, kDo, kDq, kDk, kDv, kDelta, kDqSum };

/// The graph of forward. cuDNN's fused engines recognize it as attention if the operations come in this order: scores,
/// scale, mask, softmax by a maximum and a sum, product with the values. q, k, v are BF16 slices of rows [q heads | k
/// heads | v heads]; o is BF16 rows of heads; lse is FP32.
Graph sdpa_forward_graph(const SdpaPart& part);

/// The graph of backward, with probabilities recomputed from the log-sum-exp. dq, dk, dv lie as q, k, v, and dout as o.
/// Scratch in memory: kDelta FP32 (batch, heads, seq), the sums of dout·o; and, unless deterministic, kDqSum FP32
/// (batch, heads, seq, head_dim). Deterministic backward keeps the gradients of all scores of the part, in BF16, in the
/// plan's workspace.
Graph sdpa_backward_graph(const SdpaPart& part);

}  // namespace shard8::kernels::cuda
