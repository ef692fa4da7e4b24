// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "profile/region.hpp"

#include <Kokkos_Core.hpp>

namespace shard8::profile {

void push_region(const std::string& name) { Kokkos::Profiling::pushRegion(name); }
void pop_region() { Kokkos::Profiling::popRegion(); }

}  // namespace shard8::profile
