// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <signal.h>

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace shard8::base {

/// Catches the signals that request a stop of the run, SIGTERM, SIGUSR1, SIGINT and SIGHUP, from its construction to
/// its destruction, which restores what they did before, or to ignore(). The first signal is remembered, and the run
/// reads it (first()). A second one ends the process. A SIGHUP that was ignored when the process started (nohup) stays
/// ignored. Every write to a pipe or socket that nobody reads any more raises SIGPIPE: the first one counts as a SIGHUP
/// as long as no other signal comes, and none as a first or second signal. A SIGPIPE that was ignored stays ignored. A
/// process may have one object at a time.
class StopSignals {
 public:
  static constexpr std::array<int, 4> kSignals{SIGTERM, SIGUSR1, SIGINT, SIGHUP};
  /// A signal that comes sooner after the first one is the same request: `timeout` sends each signal to its child and
  /// to the child's process group. Chosen: longer than launchers take to pass a signal on, shorter than a person who
  /// has waited for the first one.
  static constexpr std::chrono::milliseconds kSameRequest{500};

  /// Error(environment) when the handlers cannot be installed or no thread can be started.
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// Installs the handlers again. To be called after MPI_Init: MPICH installs one for SIGUSR1, by which its launcher
  /// can tell of dead processes, and after a signal queries the launcher about them. Without a launcher MPICH waits for
  /// ever.
  void take_back();

  /// From now on the signals are ignored, and still are when this object has gone: there is no moment between in which
  /// they do what they did before this object.
  void ignore();

  /// The signal that came first, 0 for none.
  int first() const;

  /// Ends the process when a second signal comes. A thread of this object calls the function with what happened, in
  /// words.
  using End = std::function<void(const std::string& what)>;
  /// From now on a second signal calls `end`. Before that, and with an empty `end`, the process prints "shard8: " and
  /// what happened on standard error and leaves with exit code 5. Returns when no earlier function runs any more.
  void on_second(End end);

 private:
  void wait_for_second();

  std::mutex mutex_;
  End end_;
  std::atomic<bool> over_ = false;
  std::array<struct sigaction, kSignals.size()> before_{};
  struct sigaction before_pipe_ {};
  std::thread thread_;  // last: it uses the others
};

/// "SIGTERM", or "signal 40" for one without a name here.
std::string signal_name(int signal);

}  // namespace shard8::base
