// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "app/process_memory.hpp"

#include <fstream>
#include <sstream>
#include <string>

#include "base/error.hpp"

namespace shard8::app {

ProcessMemory process_memory() {
  ProcessMemory memory;
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    std::istringstream words(line);
    std::string name;
    std::uint64_t kib = 0;
    words >> name >> kib;
    if (name == "VmRSS:") memory.resident = kib * 1024;
    if (name == "VmHWM:") memory.peak = kib * 1024;
  }
  if (memory.peak == 0)
    base::fail(base::ExitCode::environment, "/proc/self/status does not tell the memory of this process");
  return memory;
}

std::uint64_t memory_growth(std::uint64_t before, std::uint64_t after) { return after > before ? after - before : 0; }

}  // namespace shard8::app
