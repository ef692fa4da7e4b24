// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>

#include "base/progress.hpp"

// How a rank's host waits for other ranks, and the watchdog that decides whether a rank hangs: the watchdog's limits
// and thread, the clock that decides whether a call on a device takes too long, the list of the peers that are late,
// what the host waits for, and what it does between two tests of a wait.

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
  /// Returns what is wrong, or nothing. Only the watchdog's thread calls the function. If the function throws, the
  /// exception's text is what is wrong.
  using Look = std::function<std::optional<std::string>()>;
  /// The watchdog's thread calls the function once with what is wrong, and ends when the function returns, if it does.
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

/// Decides whether a collective on a device's stream hangs. The host may be minutes ahead of the stream, so the time of
/// a call counts from when the stream reached it. While the host issues a call, which may block in the library, its
/// time counts from when the host began. The class is not synchronized.
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
  /// The host has issued all of the call: from now on the call's events may be queried.
  void launch() { launched_ = true; }

  /// `begun` and `complete` query the device whether the stream has come to the call and to its end. Each is called
  /// only when the answer counts: neither for a call that is known to be complete, nor for a call that is not `first`,
  /// the first one in its stream that is not complete.
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

  /// How long the host has been issuing the call, or the call has run as far as looks have seen.
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

/// What this rank's host waits for, and how far its main thread has got. The main thread, which communicates, writes
/// both, and a watchdog's thread reads them. Entering and leaving a wait costs two uncontended locks and no system
/// call.
class HostWaits {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr int kNoPeer = -1;

  /// What is waited for. The texts are not copied: they must live until the wait is over.
  struct Subject {
    std::string_view operation;   ///< "all_gather", "control values", "MPI_Comm_split"
    std::string_view group = {};  ///< empty: the operation names it, or there is none yet
    int rank = 0, size = 1;       ///< this rank in that group
    std::uint64_t bytes = 0;      ///< 0: not told
    std::uint64_t call = 0;       ///< number in that group, from 1; 0: not counted
    std::string_view label = {};  ///< the matrix product that it belongs to; empty: none
  };

  /// One wait, from its construction to its destruction. A wait may lie within another one.
  class Wait {
   public:
    /// `waits` may be null: then nothing is written. `began` is when the wait began.
    Wait(HostWaits* waits, const Subject& subject, Clock::time_point began = Clock::now());
    ~Wait();
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;

    /// The rank of the group whose message is waited for now, or kNoPeer. If it passes on the rows of ranks, `chunk` is
    /// the rank whose rows they are.
    void set_peer(int peer, int chunk = kNoPeer) {
      peer_.store(peer, std::memory_order_relaxed);
      chunk_.store(chunk, std::memory_order_relaxed);
    }

   private:
    friend class HostWaits;
    std::string describe(Clock::time_point now) const;

    HostWaits* waits_;
    Subject subject_;
    Clock::time_point began_;
    Wait* outer_ = nullptr;
    std::atomic<int> peer_ = kNoPeer, chunk_ = kNoPeer;
  };

  /// While an Unlimited lives, no wait of this rank and no work of its main thread is too long: ranks read or write
  /// files, for which there is no limit. Every rank makes and destroys the object outside of waits.
  class Unlimited {
   public:
    /// `waits` may be null.
    explicit Unlimited(HostWaits* waits);
    ~Unlimited();
    Unlimited(const Unlimited&) = delete;
    Unlimited& operator=(const Unlimited&) = delete;

   private:
    HostWaits* waits_;
  };

  /// Sets the limits that hold from now on. Before the first call the defaults of HangLimits hold.
  void set_limits(const HangLimits& limits);
  /// From now on the limit of steps holds.
  void first_step_over();
  /// What the main thread does outside of waits. The main thread notes its progress there; waits note their progress
  /// themselves.
  base::Progress& progress() { return progress_; }
  /// What takes longer than the limit, in words: the innermost such wait, or the main thread's work since its last
  /// progress. Another thread, the watchdog's, calls the function at least every HangLimits::interval(). Work counts
  /// only the time in which these calls come, so that a process that was stopped as a whole may go on.
  std::optional<std::string> overdue(Clock::time_point now);

 private:
  std::string allowed() const;

  std::mutex mutex_;
  base::Progress progress_;
  std::uint64_t seen_ = 0;                 ///< progress_ at the last look
  Clock::duration standing_{};             ///< for how long looks have found no progress
  std::optional<Clock::time_point> look_;  ///< the last one
  Wait* innermost_ = nullptr;
  HangLimits limits_;
  bool first_step_over_ = false;
  int unlimited_ = 0;  ///< how many Unlimited live
};

/// How a rank waits for other ranks. `spin` waits in the MPI library, which polls without pause: best where every rank
/// has a core. `yield` gives the core away between tests: best where a node has more ranks than cores, because there
/// each wait that spins costs a scheduler slice.
enum class Waiting : std::uint8_t { spin, yield };

/// yield when the ranks of the node have more threads than the node has cores, else spin.
Waiting choose_waiting(int threads_on_node, int cores_on_node);
std::string_view name_of(Waiting waiting);

/// What a rank does between two tests of one wait. With `spin` it does nothing. With `yield` it first yields the core,
/// for kYieldFor: that is enough where all ranks are about to end the same collective (a few microseconds a turn). Then
/// it sleeps: a core that was yielded to a rank that computes comes back only at the end of a scheduler slice, but a
/// sleeper is woken in the middle of one.
class Pause {
 public:
  static constexpr std::chrono::microseconds kYieldFor{20};
  static constexpr std::chrono::microseconds kSleep{1};

  explicit Pause(Waiting waiting) : waiting_(waiting) {}
  void operator()();

 private:
  using Clock = std::chrono::steady_clock;
  Waiting waiting_;
  Clock::time_point sleep_from_{};
};

}  // namespace shard8::comm
