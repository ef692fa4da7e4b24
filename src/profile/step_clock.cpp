// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "profile/step_clock.hpp"

namespace shard8::profile {

void HostClock::begin() {
  marks_.clear();
  mark();
}

std::span<const double> HostClock::finish() {
  seconds_.clear();
  for (std::size_t i = 1; i < marks_.size(); ++i)
    seconds_.push_back(std::chrono::duration<double>(marks_[i] - marks_[i - 1]).count());
  return seconds_;
}

}  // namespace shard8::profile
