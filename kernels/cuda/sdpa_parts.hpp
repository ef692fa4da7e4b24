// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/attention_shape.hpp"

namespace shard8::kernels::cuda {

/// The part of a call that a plan computes at once: `batch` sequences by `kv_heads` kv heads with
/// their query heads, of tensors with the strides of `whole`.
struct SdpaPart {
  AttentionShape whole;
  std::int64_t batch = 0, kv_heads = 0;

  std::int64_t heads() const { return kv_heads * (whole.heads / whole.kv_heads); }
  /// Query rows of all its heads.
  std::int64_t rows() const { return batch * heads() * whole.seq; }
  std::int64_t count() const { return whole.batch / batch * (whole.kv_heads / kv_heads); }
};

/// Memory of backward beside cuDNN's own: Σ dout·o, and dq in FP32 (unless deterministic).
struct SdpaScratch {
  std::size_t delta = 0, dq_sum = 0;

  explicit SdpaScratch(const SdpaPart& part);
  std::size_t bytes() const { return delta + dq_sum; }
};

/// Equal parts of a call from the whole down to one kv head of one sequence, the largest first.
std::vector<SdpaPart> sdpa_parts(const AttentionShape& whole);

/// What backward of a part needs in all, cuDNN's own included.
std::size_t sdpa_backward_bytes(const SdpaPart& part);

}  // namespace shard8::kernels::cuda
