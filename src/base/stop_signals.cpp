// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "base/stop_signals.hpp"

#include <fmt/format.h>
#include <semaphore.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <system_error>

#include "base/error.hpp"

namespace shard8::base {
namespace {

// A handler reaches nothing but globals. The handler uses lock-free atomics, clock_gettime() and sem_post(), which are
// async-signal-safe (POSIX.1-2017, 2.4.3).
std::atomic<bool> in_use = false;
std::atomic<std::int64_t> first_ns = 0;  // when the first signal came, on the monotonic clock; 0: none came
std::atomic<int> first_signal = 0, second_signal = 0;
std::atomic<bool> pipe_broke = false;
sem_t second_came;
static_assert(std::atomic<std::int64_t>::is_always_lock_free && std::atomic<int>::is_always_lock_free &&
              std::atomic<bool>::is_always_lock_free);

bool hangup_ignored = false;  // when the process started

// UCX installs a handler for SIGHUP when it is loaded, by which it logs more, whatever the signal did before. So this
// function is called before the constructors of all libraries, and of sanitizers. The function calls the kernel itself,
// whose structure begins with the handler.
__attribute__((no_sanitize("address", "undefined", "thread"))) void look_at_hangup() {
  std::array<std::uint64_t, 8> action{};
  constexpr std::size_t kMaskBytes = 8;
  if (::syscall(SYS_rt_sigaction, SIGHUP, nullptr, action.data(), kMaskBytes) == 0) hangup_ignored = action[0] == 1;
}
[[gnu::section(".preinit_array"), gnu::used]] void (*const before_libraries)() = &look_at_hangup;

std::int64_t now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{1'000'000'000} * now.tv_sec + now.tv_nsec;
}

extern "C" void note_signal(int signal) {
  const int kept = errno;
  const std::int64_t now = now_ns();
  std::int64_t first = 0;
  int none = 0;
  if (first_ns.compare_exchange_strong(first, now)) {
    first_signal = signal;
  } else if (now - first >= std::chrono::nanoseconds(StopSignals::kSameRequest).count() &&
             second_signal.compare_exchange_strong(none, signal)) {
    ::sem_post(&second_came);
  }
  errno = kept;
}

extern "C" void note_pipe(int) { pipe_broke = true; }

}  // namespace

StopSignals::StopSignals() {
  SHARD8_REQUIRE(!in_use.exchange(true), "signals are caught twice");
  first_ns = 0;
  first_signal = second_signal = 0;
  pipe_broke = false;
  SHARD8_REQUIRE(::sem_init(&second_came, 0, 0) == 0, "sem_init: {}", std::strerror(errno));
  try {
    thread_ = std::thread([this] { wait_for_second(); });
  } catch (const std::system_error& e) {
    in_use = false;
    fail(ExitCode::environment, "cannot start the thread that waits for signals: {}", e.what());
  }
  for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], nullptr, &before_[i]);
  ::sigaction(SIGPIPE, nullptr, &before_pipe_);
  take_back();
}

void StopSignals::take_back() {
  struct sigaction action {};
  action.sa_handler = &note_signal;
  action.sa_flags = SA_RESTART;  // system calls of libraries that expect no signals go on
  sigemptyset(&action.sa_mask);
  for (const int signal : kSignals) {
    if (signal == SIGHUP && hangup_ignored)
      ::signal(signal, SIG_IGN);
    else
      ::sigaction(signal, &action, nullptr);
  }
  if (before_pipe_.sa_handler == SIG_IGN) return;  // whoever started the process wants that
  action.sa_handler = &note_pipe;
  ::sigaction(SIGPIPE, &action, nullptr);
}

void StopSignals::ignore() {
  struct sigaction action {};
  action.sa_handler = SIG_IGN;
  sigemptyset(&action.sa_mask);
  before_.fill(action);
  before_pipe_ = action;
  for (const int signal : kSignals) ::sigaction(signal, &action, nullptr);
  ::sigaction(SIGPIPE, &action, nullptr);
}

StopSignals::~StopSignals() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &before_[i], nullptr);
  ::sigaction(SIGPIPE, &before_pipe_, nullptr);
  over_ = true;
  ::sem_post(&second_came);
  thread_.join();
  ::sem_destroy(&second_came);
  in_use = false;
}

int StopSignals::first() const {
  const int signal = first_signal;
  return signal == 0 && pipe_broke ? SIGHUP : signal;
}

void StopSignals::on_second(End end) {
  const std::lock_guard lock(mutex_);
  end_ = std::move(end);
}

void StopSignals::wait_for_second() {
  while (::sem_wait(&second_came) != 0) {
  }
  const int signal = second_signal;
  if (signal == 0 || over_) return;
  const std::string what = fmt::format("ended at once by a second signal, {}", signal_name(signal));
  const std::lock_guard lock(mutex_);
  if (end_) end_(what);
  const std::string line = fmt::format("shard8: {}\n", what);
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
  ::_exit(to_int(ExitCode::failed));
}

std::string signal_name(int signal) {
  switch (signal) {
    case SIGTERM:
      return "SIGTERM";
    case SIGUSR1:
      return "SIGUSR1";
    case SIGINT:
      return "SIGINT";
    case SIGHUP:
      return "SIGHUP";
    default:
      return fmt::format("signal {}", signal);
  }
}

}  // namespace shard8::base
