// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>

// The watchdog decides whether a rank hangs. This file has its limits, its thread, the clock that decides whether a
// call on a device takes too long, and the list of the peers that are late.

namespace shard8::comm {

/// How long a rank may wait for other ranks before the job is ended.
struct HangLimits {
  /// What one rank does alone at start-up (reading data, choosing algorithms) may take minutes while the others wait.
  static constexpr std::chrono::seconds kLeastAtStart{600};

  std::chrono::milliseconds step = kLeastAtStart;
  std::chrono::milliseconds start = kLeastAtStart;  ///< in place of `step` until the first step is over

  /// The limits of a deck whose run.hang_limit_s is `limit`.
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

/// Decides whether a collective on a device's stream hangs. The host may be minutes ahead of the stream, so the time
/// of a call counts from when the stream reached it. While the host issues a call, which may block in the library,
/// its time counts from when the host began. Not synchronized.
class CallClock {
 public:
  using Clock = std::chrono::steady_clock;
  enum class State : std::uint8_t {
    complete,         ///< nothing is left to do
    under_way,        ///< the call waits for its turn, or takes no longer than the limit
    issue_overdue,    ///< the host has been issuing it for longer than the limit
    running_overdue,  ///< the stream has been at it for longer than the limit
  };

  /// The host begins to issue the call.
  void issue(Clock::time_point now) {
    *this = {};
    since_ = now;
  }
  /// The host has issued all of it: now its events may be asked about.
  void launch() { launched_ = true; }

  /// `begun` and `complete` ask the device whether the stream has come to the call and to its end. Each is asked only
  /// when the answer counts: none of a call that is known to be complete or that is not `first`, the first one in its
  /// stream that is not complete.
  template <class Begun, class Complete>
  State look(Clock::time_point now, Clock::duration limit, bool first, const Begun& begun, const Complete& complete) {
    if (complete_) return State::complete;
    if (!launched_) return now - since_ >= limit ? State::issue_overdue : State::under_way;
    if (!first) return State::under_way;
    complete_ = complete();
    if (complete_) return State::complete;
    if (!begun_) {
      begun_ = begun();
      since_ = now;  // the time of the first look that finds the call begun
    }
    return begun_ && now - since_ >= limit ? State::running_overdue : State::under_way;
  }

  /// How long it has been issued, or run as far as looks have seen.
  Clock::duration time(Clock::time_point now) const { return now - since_; }

 private:
  Clock::time_point since_{};
  bool launched_ = false;
  bool begun_ = false;
  bool complete_ = false;
};

/// The numbers of a call. The data of each rank may go in several chunks, and chunk i has the number `first` + i on
/// every rank. With these numbers the ranks of a group tell each other how far they are. After 2³² − 1 comes 0.
struct CallNumbers {
  int rank = 0, size = 1;  ///< this rank in the group
  std::uint32_t first = 0, last = 0;
  /// True: every rank tells for each chunk that it is ready, and begins no chunk before all ranks have given the chunk
  /// before. False: every rank tells once that it is ready, with the first number.
  bool in_turns = false;

  /// The call has chunks up to this number, at least.
  void extend_to(std::uint32_t number) {
    if (static_cast<std::int32_t>(number - last) > 0) last = number;
  }
};

/// Says which peers this rank waits for, and what of each is missing: "rank 1 of the group has not come to it". Empty
/// if nothing is missing. ready[r] and done[r] are the last numbers that rank r has told this rank: r is ready for the
/// chunk of this number, and has given the chunk of this number. A peer that itself waits for a rank that is not ready
/// is not named.
std::string late_peers(const CallNumbers& call, std::span<const std::uint32_t> ready,
                       std::span<const std::uint32_t> done);

}  // namespace shard8::comm
