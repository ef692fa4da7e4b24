// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace shard8::tensor {

/// Alignment in bytes of everything that is laid out in a block of memory: its address is a multiple of this. cuBLASLt
/// and cuDNN need 256 for their workspaces.
inline constexpr std::size_t kAlignment = 256;

/// `bytes` rounded up to a multiple of kAlignment.
constexpr std::size_t aligned(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace shard8::tensor
