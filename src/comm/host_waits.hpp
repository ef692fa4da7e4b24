// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "base/progress.hpp"
#include "comm/watchdog.hpp"

namespace shard8::comm {

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

  /// While it lives, no wait of this rank and no work of its main thread is too long: ranks read or write files, for
  /// which there is no limit. It is made and destroyed outside of waits, by every rank.
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

  /// From now on; before that, those of a HangLimits by default.
  void set_limits(const HangLimits& limits);
  /// From now on the limit of steps holds.
  void first_step_over();
  /// What the main thread does outside of waits. It notes its progress there; waits note theirs themselves.
  base::Progress& progress() { return progress_; }
  /// What takes longer than the limit, in words: the innermost such wait, or the main thread's work since its last
  /// progress. For another thread, which calls it at least every HangLimits::interval(). Work counts only the time in
  /// which these calls come, so that a process that was stopped as a whole may go on.
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
