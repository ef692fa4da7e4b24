// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/environment.hpp"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "base/error.hpp"
#include "base/log.hpp"
#include "comm/agree.hpp"
#include "comm/host_waits.hpp"
#include "comm/mpi/group.hpp"

namespace shard8::comm {
namespace {

#if defined(MPICH_NUMVERSION)
constexpr bool kFinalizeMayHang = MPICH_NUMVERSION < 40200000;
#else
constexpr bool kFinalizeMayHang = false;
#endif

const int kStandStill = SIGRTMAX - 1;  // chosen: a signal that neither the libraries nor the launchers use

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "an unknown host";
}

/// Tells Hydra, if that started this process, that it leaves, as MPI_Finalize would: otherwise Hydra kills other ranks
/// of the node when it ends.
void tell_hydra() {
  const Variables variable = process_variables();
  const auto text = variable("PMI_FD");
  int descriptor = -1;
  if (!text || !variable("MPI_LOCALNRANKS")) return;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), descriptor);
  constexpr std::string_view kCommand = "cmd=finalize\n";                                         // of PMI 1
  if (error == std::errc() && ::write(descriptor, kCommand.data(), kCommand.size()) < 0) return;  // Hydra is gone
}

// One write, so that lines of several ranks do not mix.
void print_error(const std::string& line) {
  std::fflush(stdout);
  base::print_coloured(line, stderr);
  std::fflush(stderr);
}

/// Ends this process if another one reports what is wrong with how both were started.
void leave_to_reporter() {
  if (reports_launch(process_variables())) return;
  // Chosen: the other process has reported by then. A launcher that ends all when the first one leaves sends a signal,
  // which ends the wait.
  ::sleep(3);
  ::_exit(base::to_int(base::ExitCode::environment));
}

/// Ends this process with `code` after `time`, whatever its threads do then.
void exit_after(std::chrono::seconds time, int code) noexcept {
  try {
    std::thread([=] {
      std::this_thread::sleep_for(time);
      ::_exit(code);
    }).detach();
  } catch (const std::system_error&) {  // no memory for a thread: by a signal, which the launcher reports
    ::alarm(static_cast<unsigned>(time.count()));
  }
}

}  // namespace

struct Environment::Life {
  MPI_Comm world{};
  int rank = 0, size = 1;
  std::atomic<bool> started = false;     // MPI is, and the above are set
  std::atomic<bool> finalizing = false;  // MPI_Finalize was called: MPI_Abort may find no communicator any more
  bool over = false;
  std::atomic<std::thread::id> ender{};  // the thread that ends the job
  std::terminate_handler before = nullptr;
  static inline std::atomic<Life*> living = nullptr;

  [[noreturn]] void end_job(int code, std::string_view message) {
    std::thread::id nobody;
    if (!ender.compare_exchange_strong(nobody, std::this_thread::get_id())) {
      for (;;) ::pause();  // another thread ends this process
    }
    const bool others = started && size > 1;
    const std::string who = others ? fmt::format("rank {}: ", rank) : std::string();
    print_error(fmt::format("shard8: {}{}\n", who, message));
    if (others) {
      // MPI_Abort may hang: MPI need not know this thread, and the launcher may be gone.
      exit_after(kAbortTime, code);
      // A launcher may drop what it has not yet read from the ranks when it ends the job.
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      // The launcher ends the others when a process leaves with a code that is not 0.
      if (!finalizing) MPI_Abort(world, code);
    }
    ::_exit(code);
  }

  // An exception that nobody can catch: it left a thread or a destructor, as a device does that fails while an error of
  // its own unwinds the stack.
  [[noreturn]] static void at_terminate() {
    auto code = base::ExitCode::failed;
    std::string message = "ended without a reason that is known";
    try {
      if (const auto error = std::current_exception()) std::rethrow_exception(error);
    } catch (const base::Error& e) {
      code = e.code();
      message = e.what();
    } catch (const std::exception& e) {
      message = e.what();
    } catch (...) {
      message = "an exception of unknown type was thrown";
    }
    if (Life* const life = living) life->end_job(base::to_int(code), message);
    std::abort();
  }

  // Called after exit(), which runs no destructors of main's variables.
  static void at_exit(int status, void* self) {
    auto* const life = static_cast<Life*>(self);
    if (life->ender.load() == std::this_thread::get_id()) return;  // MPI_Abort leaves by exit()
    int finalized = 0;
    if (!life->over && MPI_Finalized(&finalized) == MPI_SUCCESS && finalized == 0) {
      life->end_job(status == 0 ? base::to_int(base::ExitCode::failed) : status,
                    fmt::format("left by exit({}) before the end of the run", status));
    }
    delete life;
  }
};

Environment::Environment(int& argc, char**& argv, MPI_Comm world, const HangLimits& limits)
    : life_(new Life), world_(world) {
  Life::living = life_;
  life_->before = std::set_terminate(&Life::at_terminate);
  set_hang_limits(limits);
  prepare_mpi();
  if (const auto problem = shared_memory_problem(process_variables(), library_text(), room_of("/dev/shm"))) {
    leave_to_reporter();
    throw base::Error(base::ExitCode::environment, *problem);
  }
  int provided = MPI_THREAD_SINGLE;
  {
    const HostWaits::Wait wait(&waits_, {.operation = "MPI_Init_thread"});
    check_mpi(MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread", "start", nullptr);
  }
  // MPI may report errors of completed requests there, whatever the request's communicator.
  for (const MPI_Comm comm : {world, MPI_COMM_SELF})
    check_mpi(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler", "start", nullptr);
  check_mpi(MPI_Comm_rank(world, &rank_), "MPI_Comm_rank", "start", nullptr);
  check_mpi(MPI_Comm_size(world, &size_), "MPI_Comm_size", "start", nullptr);
  if (provided < MPI_THREAD_FUNNELED) {
    MPI_Finalize();
    base::fail(base::ExitCode::environment,
               "the mpi library provides thread level {}, needed is MPI_THREAD_FUNNELED ({}); use a build of it with "
               "threads",
               provided, MPI_THREAD_FUNNELED);
  }
  life_->world = world;
  life_->rank = rank_;
  life_->size = size_;
  life_->started = true;
  if (::on_exit(&Life::at_exit, life_) != 0) abort(base::ExitCode::environment, "on_exit() has no room for a function");
}

Environment::~Environment() {
  if (std::uncaught_exceptions() > 0) abort(base::ExitCode::failed, "left by an exception before the end of the run");
  const HostWaits::Wait wait(&waits_, {.operation = "MPI_Finalize"});
  std::optional<Watchdog> bound;
  if (kFinalizeMayHang && code_ && size_ > 1 && all_have_come()) {
    const auto end = HostWaits::Clock::now() + finalize_time_;
    try {
      bound.emplace(
          finalize_time_ / 40,
          [end] { return HostWaits::Clock::now() < end ? std::nullopt : std::optional<std::string>("late"); },
          [this, main = ::pthread_self()](const std::string&) { leave(main); });
    } catch (const std::system_error&) {  // no room for a thread: the other watchdog still looks
    }
  }
  life_->finalizing = true;
  MPI_Finalize();
  life_->over = true;
  std::set_terminate(life_->before);
  Life::living = nullptr;
}

void Environment::leave_with(int code, std::function<void()> before_leaving) {
  code_ = code;
  before_leaving_ = std::move(before_leaving);
}

/// Whether all ranks have come here. False when MPI fails.
bool Environment::all_have_come() const {
  MPI_Request request = MPI_REQUEST_NULL;
  if (MPI_Ibarrier(world_, &request) != MPI_SUCCESS) return false;
  Pause pause(Waiting::yield);
  for (;;) {
    int over = 0;
    if (MPI_Test(&request, &over, MPI_STATUS_IGNORE) != MPI_SUCCESS) return false;
    if (over != 0) return true;
    pause();
  }
}

void Environment::leave(pthread_t main) const {
  if (rank_ == 0)
    print_error(
        fmt::format("shard8: MPI_Finalize has not returned for {} ms (pmodels/mpich#6596): all ranks have done their "
                    "work and leave without it\n",
                    finalize_time_.count()));
  std::fflush(nullptr);
  // A rank that leaves frees those that wait for it. These ranks would go on to the barrier, and Hydra would tell ranks
  // that are no more of its end, and fail. So no rank leaves before all stand still.
  std::signal(kStandStill, [](int) {
    for (;;) ::pause();
  });
  ::pthread_kill(main, kStandStill);
  std::this_thread::sleep_for(finalize_time_ / 2);
  tell_hydra();
  std::this_thread::sleep_for(finalize_time_ / 20);  // another rank of the node may have been late to say so
  if (before_leaving_) before_leaving_();
  ::_exit(*code_);
}

void Environment::set_hang_limits(const HangLimits& limits) {
  finalize_time_ = std::min<std::chrono::milliseconds>(kFinalizeTime, limits.step / 2);
  waits_.set_limits(limits);
  watch(limits);
}

void Environment::watch(const HangLimits& limits) {
  watchdog_.reset();
  try {
    watchdog_.emplace(
        limits.interval(), [this] { return waits_.overdue(HostWaits::Clock::now()); },
        [this](const std::string& what) {
          abort(base::ExitCode::failed, fmt::format("on {}: {}", host_name(), what));
        });
  } catch (const std::system_error& e) {
    abort(base::ExitCode::environment, fmt::format("cannot start the watchdog's thread: {}", e.what()));
  }
}

void Environment::check_launch() const {
  const auto problem = launch_problem(process_variables(), size_);
  if (!problem) return;
  leave_to_reporter();
  throw base::Error(base::ExitCode::environment, *problem);
}

void Environment::abort(base::ExitCode code, std::string_view message) const {
  const int status = code == base::ExitCode::ok ? base::to_int(base::ExitCode::failed) : base::to_int(code);
  life_->end_job(status, message);
}

int run_guarded(const Environment& environment, const std::function<int()>& body) {
  try {
    environment.check_launch();
    return body();
  } catch (const AgreedError& e) {
    if (e.ranks() != environment.size()) environment.abort(e.code(), e.what());
    // A deck's message begins with file:line:column, which editors read.
    const char* const prefix = e.code() == base::ExitCode::deck ? "" : "shard8: ";
    if (environment.rank() == 0) print_error(fmt::format("{}{}\n", prefix, e.what()));
    return base::to_int(e.code());
  } catch (const base::Error& e) {
    environment.abort(e.code(), e.what());
  } catch (const std::exception& e) {
    environment.abort(base::ExitCode::failed, e.what());
  } catch (...) {
    environment.abort(base::ExitCode::failed, "an exception of unknown type was thrown");
  }
}

}  // namespace shard8::comm
