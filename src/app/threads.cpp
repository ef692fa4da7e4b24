// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "app/threads.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include "base/error.hpp"

namespace shard8::app {

int threads_from_environment() {
  const char* const text = std::getenv("OMP_NUM_THREADS");
  if (text == nullptr || *text == '\0') return 0;
  const std::string_view all(text);
  const std::string_view first = all.substr(0, all.find(','));  // a list is for nested regions
  int threads = 0;
  const auto [end, error] = std::from_chars(first.data(), first.data() + first.size(), threads);
  if (error != std::errc() || end != first.data() + first.size() || threads < 1)
    base::fail(base::ExitCode::environment, "OMP_NUM_THREADS is '{}': set it to a positive number or unset it", text);
  return threads;
}

int choose_threads(const comm::Node& node) {
  const int asked = threads_from_environment();
  return asked > 0 ? asked : std::max(1, node.cores / node.ranks);
}

}  // namespace shard8::app
