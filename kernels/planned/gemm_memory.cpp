// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/planned/gemm_memory.hpp"

#include <algorithm>

#include "tensor/alignment.hpp"

namespace shard8::kernels::cuda {

using tensor::DType;
using tensor::Scaling;

namespace {

constexpr std::int64_t kBlock = 128;

std::int64_t padded(std::int64_t blocks) { return (blocks + 3) / 4 * 4; }

bool is_float8(DType dtype) { return dtype == DType::e4m3 || dtype == DType::e5m2; }

}  // namespace

std::size_t gemm_memory_bytes(DType operands, std::int64_t tokens, std::int64_t inputs, std::int64_t outputs,
                              Scaling scaling, bool transposed) {
  const auto bytes = [](std::int64_t count, std::size_t size) {
    return tensor::aligned(static_cast<std::size_t>(count) * size);
  };
  const auto blocks = [](std::int64_t n) { return (n + kBlock - 1) / kBlock; };
  const std::int64_t t = tokens, k = inputs, n = outputs;
  // With room for a converted bias.
  const std::size_t common = tensor::kAlignment + kLtWorkspaceBytes + bytes(n, sizeof(float));
  if (!is_float8(operands)) return common;

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

}  // namespace shard8::kernels::cuda
