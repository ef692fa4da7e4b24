// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "base/cpus.hpp"

#include <sched.h>

#include <fstream>

namespace shard8::base {

void CpuSet::add(const CpuSet& other) {
  for (std::size_t i = 0; i < words.size(); ++i) words[i] |= other.words[i];
}

std::vector<int> CpuSet::numbers() const {
  std::vector<int> cpus;
  for (std::size_t cpu = 0; cpu < 64 * words.size(); ++cpu)
    if (contains(cpu)) cpus.push_back(static_cast<int>(cpu));
  return cpus;
}

CpuSet affinity(pid_t thread) {
  CpuSet cpus;
  if (::sched_getaffinity(thread, sizeof cpus.words, reinterpret_cast<cpu_set_t*>(cpus.words.data())) != 0) return {};
  return cpus;
}

std::string node_identity() {
  std::string id;
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::getline(file, id);
  return id;
}

}  // namespace shard8::base
