// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "comm/nccl/call.hpp"
#include "comm/peer/words_reader.hpp"
#include "comm/watchdog.hpp"

namespace shard8::comm::nccl {

/// The calls of a lane that are under way, oldest first: from where the host begins to issue a call until the lane
/// takes it back. Two threads use it. The program's thread alone changes the list. The watchdog's thread alone calls
/// overdue().
///
/// The mutex guards the list, and the clock and words of each call in it. It does not guard the calls: while a call is
/// in the list its subject does not change, and its events are recorded before launched() tells so. The program's
/// thread reads the list without the mutex.
class CallsUnderWay {
 public:
  using Clock = CallClock::Clock;

  /// `lane`, static text, names the lane in messages.
  explicit CallsUnderWay(std::string_view lane) : lane_(lane) {}

  /// The host begins to issue the call. `words` tell how far peers are, if the call goes through their memory.
  void add(Call& call, peer::CallWords words);
  /// The call has chunks up to this number, as peer::CallWords counts them.
  void extend(const Call& call, std::uint32_t last_number);
  /// The host has issued all of the call: the watchdog may ask the call's events.
  void launched(const Call& call);
  /// Null if there is none.
  Call* oldest() const { return list_.empty() ? nullptr : list_.front().call; }
  /// From now on the watchdog does not read the oldest call.
  void remove_oldest();

  std::size_t count() const { return list_.size(); }
  /// The most that were ever under way at once.
  std::size_t most() const { return most_; }
  /// Makes memory for `count` calls.
  void grow_to(std::size_t count);

  /// Describes the first call that takes longer than `limit`, as CallClock counts, and says what of which peers is
  /// missing, as far as `reader` can read it. For the watchdog's thread.
  std::optional<std::string> overdue(Clock::time_point now, Clock::duration limit, const peer::WordsReader& reader);

 private:
  struct Entry {
    Call* call = nullptr;
    CallClock clock;
    peer::CallWords words;
  };
  struct Overdue {
    std::string text;
    peer::CallWords words;
    bool running;  ///< the host has issued all of the call
  };
  Entry& entry_of(const Call& call);
  std::optional<Overdue> find_overdue(Clock::time_point now, Clock::duration limit);
  std::string describe(const Entry& entry, std::string_view problem, Clock::time_point now) const;

  std::string_view lane_;
  std::mutex mutex_;
  std::list<Entry> list_;
  std::list<Entry> spare_;  ///< used again, so that a step allocates nothing; the program's thread alone uses it
  std::size_t most_ = 0;
};

}  // namespace shard8::comm::nccl
