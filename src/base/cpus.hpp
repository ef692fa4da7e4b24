// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace shard8::base {

/// A set of the CPUs of a node, which have the numbers 0 to 16383. Bit b of words[w] is set if CPU 64·w + b is in it.
struct CpuSet {
  std::array<std::uint64_t, 256> words{};

  bool contains(std::size_t cpu) const { return cpu < 64 * words.size() && (words[cpu / 64] >> cpu % 64 & 1) != 0; }
  void add(const CpuSet& other);
  /// The numbers of the CPUs, ascending.
  std::vector<int> numbers() const;
};

/// The CPUs that a thread may use (sched_getaffinity); 0: the calling thread. Empty if the system does not say.
CpuSet affinity(pid_t thread = 0);

/// Identifies the running system of this node: /proc/sys/kernel/random/boot_id. Empty if it cannot be read.
std::string node_identity();

}  // namespace shard8::base
