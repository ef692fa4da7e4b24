// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace shard8::profile {

/// Kokkos Tools regions: what connectors (NVTX, Caliper, Perfetto) show.
void push_region(const std::string& name);
void pop_region();

}  // namespace shard8::profile
