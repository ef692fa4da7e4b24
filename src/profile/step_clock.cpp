// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "profile/step_clock.hpp"

namespace shard8::profile {

void HostClock::begin() {
  marks_.clear();
  mark();
}

double HostClock::finish() {
  const auto seconds = [](Clock::time_point from, Clock::time_point to) {
    return std::chrono::duration<double>(to - from).count();
  };
  const auto start = end_.value_or(marks_.front());
  seconds_.assign(1, seconds(start, marks_.front()));
  for (std::size_t i = 1; i < marks_.size(); ++i) seconds_.push_back(seconds(marks_[i - 1], marks_[i]));
  end_ = marks_.back();
  return seconds(start, marks_.back());
}

}  // namespace shard8::profile
