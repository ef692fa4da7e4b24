// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/planned/device_memory.hpp"

#include <algorithm>

#include "tensor/dtype.hpp"

namespace shard8::kernels::cuda {

using tensor::DType;
using tensor::Scaling;

namespace {

constexpr std::int64_t kBlock = 128;

std::int64_t padded(std::int64_t blocks) { return (blocks + 3) / 4 * 4; }

// Room for what cuDNN 9.19 takes in addition on compute capability 9.0: 128 or 256 bytes were seen.
constexpr std::size_t kBeside = 512;
constexpr std::size_t kScoresLimit = std::size_t{512} << 20;

std::size_t aligned(std::int64_t bytes) { return tensor::aligned(static_cast<std::size_t>(bytes)); }

/// Bytes of the gradients of all scores in BF16, which deterministic backward keeps; else 0.
std::size_t scores_bytes(const SdpaPart& part) {
  const auto tiled = [&](std::int64_t tile) { return (part.whole.seq + tile - 1) / tile * tile; };
  return part.whole.deterministic ? aligned(2 * part.batch * part.heads() * tiled(64) * tiled(128)) : 0;
}

}  // namespace

std::size_t gemm_memory_bytes(DType operands, std::int64_t tokens, std::int64_t inputs, std::int64_t outputs,
                              Scaling scaling, bool transposed) {
  const auto bytes = [](std::int64_t count, std::size_t size) {
    return tensor::aligned(static_cast<std::size_t>(count) * size);
  };
  const auto blocks = [](std::int64_t n) { return (n + kBlock - 1) / kBlock; };
  const std::int64_t t = tokens, k = inputs, n = outputs;
  // The common part of all dtypes, with room for a converted bias.
  const std::size_t common = tensor::kAlignment + kLtWorkspaceBytes + bytes(n, sizeof(float));
  if (!tensor::is_float8(operands)) return common;

  const std::size_t of_scales =
      std::max({bytes(blocks(k) * t, sizeof(float)) + bytes(blocks(n) * padded(blocks(k)), sizeof(float)),
                bytes(blocks(n) * t, sizeof(float)) + bytes(blocks(k) * padded(blocks(n)), sizeof(float)),
                bytes(blocks(t) * n, sizeof(float)) + bytes(blocks(t) * k, sizeof(float))});
  const std::size_t copies = std::max(bytes(n * k, 1), transposed ? 0 : bytes(t * n, 1) + bytes(t * k, 1));
  const std::size_t decoded = std::max(
      {bytes(t * k, 2) + bytes(n * k, 2), bytes(t * n, 2) + bytes(n * k, 2), bytes(t * n, 2) + bytes(t * k, 2)});
  switch (scaling) {
    case Scaling::tensor:
      return common + copies;
    case Scaling::row_32:
    case Scaling::column_32:
      return common + decoded;
    case Scaling::none:
      return common + std::max(copies + of_scales, decoded);
    default:
      return common + copies + of_scales;
  }
}

std::size_t grouped_gemm_memory_bytes(DType operands, std::int64_t groups, std::int64_t rows, std::int64_t inputs,
                                      std::int64_t outputs, Scaling scaling, bool transposed) {
  const std::size_t each = gemm_memory_bytes(operands, rows, inputs, outputs, scaling, transposed);
  const std::size_t common =
      tensor::kAlignment + kGroupedMapsBytes + tensor::aligned(static_cast<std::size_t>(groups) * kGroupedArrayBytes);
  if (!tensor::is_float8(operands)) return std::max(each, common);
  // Room for wgrad's operands with contiguous rows. Operands that lie so already are copied if the host multiplies
  // group by group.
  const std::size_t turned = aligned(rows * outputs) + aligned(rows * inputs);
  return std::max(each + (transposed ? turned : 0),
                  common + std::max(aligned(groups * outputs * inputs), transposed ? 0 : turned));
}

SdpaScratch::SdpaScratch(const SdpaPart& part)
    : delta(aligned(4 * part.rows())),
      dq_sum(part.whole.deterministic ? 0 : aligned(4 * part.rows() * part.whole.head_dim)) {}

std::vector<SdpaPart> sdpa_parts(const AttentionShape& whole) {
  std::vector<SdpaPart> parts{{whole, whole.batch, whole.kv_heads}};
  // Otherwise rows of lse would not begin at multiples of 16 bytes.
  if (whole.seq % 4 != 0) return parts;
  for (auto batch = whole.batch - 1; batch > 0; --batch) {
    if (whole.batch % batch == 0) parts.push_back({whole, batch, whole.kv_heads});
  }
  for (auto kv_heads = whole.kv_heads - 1; kv_heads > 0; --kv_heads) {
    if (whole.kv_heads % kv_heads == 0) parts.push_back({whole, 1, kv_heads});
  }
  return parts;
}

std::size_t sdpa_backward_bytes(const SdpaPart& part) {
  const bool grouped = part.whole.heads != part.whole.kv_heads;
  const auto key_gradients = grouped ? 2 * aligned(2 * part.rows() * part.whole.head_dim) : 0;
  return SdpaScratch(part).bytes() + key_gradients + scores_bytes(part) + kBeside;
}

std::size_t sdpa_workspace_bytes(const AttentionShape& shape) {
  const auto parts = sdpa_parts(shape);
  for (const auto& part : parts) {
    if (scores_bytes(part) <= kScoresLimit) return sdpa_backward_bytes(part);
  }
  return sdpa_backward_bytes(parts.back());
}

}  // namespace shard8::kernels::cuda
