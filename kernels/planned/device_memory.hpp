// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/attention.hpp"
#include "tensor/operand.hpp"

namespace shard8::kernels::cuda {

/// The workspace that cuBLASLt can use on compute capability 9.0, in bytes.
inline constexpr std::size_t kLtWorkspaceBytes = std::size_t{32} << 20;

/// Bytes of the `memory` of gemm_fprop, gemm_dgrad and gemm_wgrad (kernels/cuda/gemm.hpp), enough for each of them.
/// `scaling`: how x is scaled rowwise; Scaling::none stands for any scaling. `transposed`: x and dy are stored
/// transposed where wgrad reads them. Weights are never stored transposed.
std::size_t gemm_memory_bytes(tensor::DType operands, std::int64_t tokens, std::int64_t inputs, std::int64_t outputs,
                              tensor::Scaling scaling, bool transposed);

/// The workspace that CUTLASS's kernels for grouped products need, in bytes: for each multiprocessor, of at most 256,
/// two descriptors of operands and three of results, 128 bytes each.
inline constexpr std::size_t kGroupedMapsBytes = std::size_t{256} * 5 * 128;
/// Bytes that a grouped product needs of each group: five addresses, three pitches, three extents and a scale.
inline constexpr std::size_t kGroupedArrayBytes = 8 * sizeof(std::int64_t) + 3 * sizeof(std::int32_t) + sizeof(float);

/// Bytes of the workspace of grouped products (kernels/gemm.hpp), enough for each of the three, also where the
/// host multiplies group by group. Arguments as in gemm_memory_bytes(); `rows` of all `groups` groups together.
std::size_t grouped_gemm_memory_bytes(tensor::DType operands, std::int64_t groups, std::int64_t rows,
                                      std::int64_t inputs, std::int64_t outputs, tensor::Scaling scaling,
                                      bool transposed);

/// The part of a call that a plan computes at once: `batch` sequences by `kv_heads` kv heads with their query heads.
/// The tensors of the part have the strides of `whole`.
struct SdpaPart {
  AttentionShape whole;
  std::int64_t batch = 0, kv_heads = 0;

  std::int64_t heads() const { return kv_heads * (whole.heads / whole.kv_heads); }
  /// Rows of queries, counted over all heads of the part.
  std::int64_t rows() const { return batch * heads() * whole.seq; }
  std::int64_t count() const { return whole.batch / batch * (whole.kv_heads / kv_heads); }
};

/// Bytes that backward needs in addition to cuDNN's workspace: Σ dout·o, and dq in FP32 unless deterministic.
struct SdpaScratch {
  std::size_t delta = 0, dq_sum = 0;

  explicit SdpaScratch(const SdpaPart& part);
  std::size_t bytes() const { return delta + dq_sum; }
};

/// The ways to cut a call into equal parts, from the whole call down to one kv head of one sequence, the largest part
/// first. If seq is not a multiple of 4, the whole call is the only way.
std::vector<SdpaPart> sdpa_parts(const AttentionShape& whole);

/// Bytes that backward of a part needs in all, cuDNN's workspace included.
std::size_t sdpa_backward_bytes(const SdpaPart& part);

/// Bytes of Sdpa's workspace, enough for both directions on compute capability 9 and later. A pass that does not fit
/// into its workspace is cut into parts: fewer sequences or fewer kv heads at a time. The size is for the largest part
/// whose gradients of all scores, if deterministic, take at most 512 MiB (for one kv head of one sequence if none
/// does). With N = batch·heads·seq of that part and D = head_dim the size is the sum of these bytes, each rounded up to
/// 256:
/// - 4·N for Σ dout·o;
/// - grouped queries: 4·N·D for the gradients of k and v of every query head in BF16;
/// - not deterministic: 4·N·D for dq in FP32, to which blocks of keys add in any order;
/// - deterministic: 2·batch·heads·seq·seq for the gradients of all scores in BF16, seq rounded up to 64 and to 128;
/// - 512 for cuDNN itself.
std::size_t sdpa_workspace_bytes(const AttentionShape& shape);

}  // namespace shard8::kernels::cuda
