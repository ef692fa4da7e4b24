// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace shard8::comm {

/// A thread that looks, again and again, whether something that the others wait for will ever come. A
/// rank that waits in a library cannot say so itself.
class Watchdog {
 public:
  /// What is wrong, if anything is. Called by the thread alone, which an exception of it ends with the
  /// exception's text as what is wrong.
  using Look = std::function<std::optional<std::string>()>;
  /// Told once what is wrong, by the thread; it need not return.
  using Alarm = std::function<void(const std::string&)>;

  Watchdog(std::chrono::milliseconds interval, Look look, Alarm alarm);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  void run();
  std::optional<std::string> look() const;

  std::chrono::milliseconds interval_;
  Look look_;
  Alarm alarm_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool over_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace shard8::comm
