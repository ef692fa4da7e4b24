// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>

namespace shard8::comm {

/// Decides whether a collective on a device's stream hangs. The host may be minutes ahead of the stream, so the time
/// of a call counts from when the stream reached it. While the host issues a call, which may block in the library,
/// its time counts from when the host began. Not synchronized.
class CallClock {
 public:
  using Clock = std::chrono::steady_clock;
  enum class State : std::uint8_t {
    complete,         ///< nothing is left to do
    under_way,        ///< it waits for its turn, or it takes no longer than the limit
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
      since_ = now;  // that of the first look that finds it begun
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

}  // namespace shard8::comm
