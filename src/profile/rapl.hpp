// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "profile/energy_counter.hpp"

namespace shard8::profile {

/// Where Linux shows RAPL's counters: the environment variable SHARD8_POWERCAP, or /sys/class/powercap.
std::filesystem::path powercap_root();

/// The counters of the node's processors and of their memory: in `root` the zones intel-rapl:N named package-* and
/// their parts intel-rapl:N:M named dram (Linux, Documentation/power/powercap/powercap.rst; AMD's processors have the
/// same names). psys and intel-rapl-mmio count the same energy once more and are not read.
EnergySources rapl_counters(const std::filesystem::path& root = powercap_root());

}  // namespace shard8::profile
