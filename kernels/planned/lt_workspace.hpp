// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace shard8::kernels::cuda {

/// The workspace that cuBLASLt can use on compute capability 9.0, in bytes.
inline constexpr std::size_t kLtWorkspaceBytes = std::size_t{32} << 20;

}  // namespace shard8::kernels::cuda
