// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/waiting.hpp"

#include <sched.h>
#include <time.h>

namespace shard8::comm {

Waiting choose_waiting(int threads_on_node, int cores_on_node) {
  return threads_on_node > cores_on_node ? Waiting::yield : Waiting::spin;
}

std::string_view name_of(Waiting waiting) {
  switch (waiting) {
    case Waiting::spin:
      return "spin";
    case Waiting::yield:
      return "yield";
  }
  return "?";
}

void Pause::operator()() {
  if (waiting_ == Waiting::spin) return;
  const auto now = Clock::now();
  if (sleep_from_ == Clock::time_point{}) sleep_from_ = now + kYieldFor;
  if (now < sleep_from_) {
    ::sched_yield();
    return;
  }
  const timespec nap{0, std::chrono::nanoseconds(kSleep).count()};
  ::nanosleep(&nap, nullptr);
}

}  // namespace shard8::comm
