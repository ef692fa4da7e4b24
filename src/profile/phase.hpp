// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace shard8::profile {

/// Phases of a training step; every moment of a step belongs to exactly one. A phase entered inside
/// another takes the time away from it (a gather waited for inside forward is gather_wait).
enum class Phase : std::uint8_t { data, gather_wait, forward, backward, reduce_wait, optimizer, quantize, other };
inline constexpr int kPhases = 8;

/// What forward and backward consist of; each moment of those two belongs to at most one.
enum class Part : std::uint8_t { attention, gemm, tensor_comm, elementwise };
inline constexpr int kParts = 4;

std::string_view name_of(Phase phase);
std::string_view name_of(Part part);

}  // namespace shard8::profile
