// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace shard8::comm {

/// How long a rank may wait for other ranks before the job is ended.
struct HangLimits {
  /// What one rank does alone at start-up (reading data, choosing algorithms) may take minutes while the others wait.
  static constexpr std::chrono::seconds kLeastAtStart{600};

  std::chrono::milliseconds step = kLeastAtStart;
  std::chrono::milliseconds start = kLeastAtStart;  ///< in place of `step` until the first step is over

  /// Those of the deck's run.hang_limit_s.
  static HangLimits of(std::chrono::seconds limit) { return {limit, std::max(limit, kLeastAtStart)}; }
  /// How often a watchdog looks: its alarm is late by at most a tenth of a limit, and it is not felt.
  std::chrono::milliseconds interval() const {
    using std::chrono::milliseconds;
    return std::clamp(std::min(step, start) / 10, milliseconds(10), milliseconds(2000));
  }
};

/// A thread that regularly looks whether something that other ranks wait for will never come. A rank that waits
/// in a library cannot say so itself.
class Watchdog {
 public:
  /// Returns what is wrong, or nothing. Only the thread calls it. If it throws, the exception's text is what is
  /// wrong.
  using Look = std::function<std::optional<std::string>()>;
  /// The thread calls it once with what is wrong, and ends when it returns, if it does.
  using Alarm = std::function<void(const std::string&)>;

  /// Throws std::system_error when no thread can be started.
  Watchdog(std::chrono::milliseconds interval, Look look, Alarm alarm);
  /// Ends the thread at once.
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
