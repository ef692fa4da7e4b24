// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace shard8::tensor {

/// Bytes: what is laid out in a block of memory begins at multiples of this.
inline constexpr std::size_t kAlignment = 256;

/// The next multiple of it.
constexpr std::size_t aligned(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace shard8::tensor
