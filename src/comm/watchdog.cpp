// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/watchdog.hpp"

#include <exception>
#include <utility>

namespace shard8::comm {

Watchdog::Watchdog(std::chrono::milliseconds interval, Look look, Alarm alarm)
    : interval_(interval), look_(std::move(look)), alarm_(std::move(alarm)), thread_([this] { run(); }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

std::optional<std::string> Watchdog::look() const {
  try {
    return look_();
  } catch (const std::exception& e) {
    return e.what();
  }
}

void Watchdog::run() {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, interval_, [this] { return over_; })) {
    lock.unlock();
    if (const auto wrong = look()) {
      alarm_(*wrong);
      return;
    }
    lock.lock();
  }
}

}  // namespace shard8::comm
