// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// This library is loaded before all others into the ranks of tests that start more ranks than a machine may have cores.
// A rank that waits for another one leaves its core to it, so that ranks that share a core start in less time:
// - In a blocking call of MPI (MPI_Comm_split) it asks UCX for progress over and over, and yields after some vain
//   attempts.
// - In MPICH's MPI_Init and MPI_Finalize it reads a word in a loop without a call. A timer interrupts it, and where the
//   thread is in the same few instructions as the time before, it yields.
// MPI libraries that do neither are as they were.

#include <dlfcn.h>
#include <sched.h>
#include <signal.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstdint>

extern "C" unsigned ucp_worker_progress(void* worker);
extern "C" int MPI_Init(int* argc, char*** argv);
extern "C" int MPI_Init_thread(int* argc, char*** argv, int required, int* provided);
extern "C" int MPI_Finalize();

namespace {

// Of the thread that is in MPI_Init or MPI_Finalize: where it was at the last interrupt, and its processor time then.
std::uintptr_t last_place = 0;
std::int64_t last_ns = 0;

std::int64_t thread_ns() {
  timespec now = {};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

std::uintptr_t place_of([[maybe_unused]] const void* context) {
#if defined(__x86_64__)
  return static_cast<std::uintptr_t>(static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP]);
#elif defined(__aarch64__)
  return static_cast<std::uintptr_t>(static_cast<const ucontext_t*>(context)->uc_mcontext.pc);
#else
  return 0;
#endif
}

void interrupted(int, siginfo_t*, void* context) {
  constexpr std::uintptr_t kLoop = 32;        // chosen: bytes of the loop's instructions
  constexpr std::int64_t kShortest = 50'000;  // chosen: a thread that has just got its core has not looped yet
  const std::int64_t now = thread_ns();
  if (now - last_ns < kShortest) return;
  last_ns = now;
  const std::uintptr_t place = place_of(context);
  const bool loops = place != 0 && place - last_place + kLoop < 2 * kLoop;
  last_place = place;
  if (loops) ::sched_yield();
}

/// From its construction to its destruction a timer interrupts the thread that constructs it.
class Interrupts {
 public:
  Interrupts() {
    struct sigaction action = {};
    action.sa_sigaction = interrupted;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    if (::sigaction(kSignal, &action, nullptr) != 0) return;
    sigevent event = {};
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = kSignal;
    event._sigev_un._tid = ::gettid();
    made_ = ::timer_create(CLOCK_MONOTONIC, &event, &timer_) == 0;
    constexpr long kEvery = 200'000;                      // chosen: nanoseconds, less than a turn of a thread
    const itimerspec times = {{0, kEvery}, {0, kEvery}};  // repeated, and the first one
    if (made_) ::timer_settime(timer_, 0, &times, nullptr);
  }
  ~Interrupts() {
    if (made_) ::timer_delete(timer_);  // the signal stays handled: one may be pending
  }
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

 private:
  const int kSignal = SIGRTMIN + 7;  // chosen: nobody else's
  timer_t timer_ = {};
  bool made_ = false;
};

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" unsigned ucp_worker_progress(void* worker) {
  constexpr int kVain = 10;  // chosen: fewer attempts than a rank's turn has
  static const auto original = next<unsigned(void*)>("ucp_worker_progress");
  static thread_local int vain = 0;
  const unsigned progressed = original(worker);
  if (progressed > 0)
    vain = 0;
  else if (++vain > kVain)
    ::sched_yield();
  return progressed;
}

extern "C" int MPI_Init(int* argc, char*** argv) {
  const Interrupts interrupts;
  return next<int(int*, char***)>("MPI_Init")(argc, argv);
}

extern "C" int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  const Interrupts interrupts;
  return next<int(int*, char***, int, int*)>("MPI_Init_thread")(argc, argv, required, provided);
}

extern "C" int MPI_Finalize() {
  const Interrupts interrupts;
  return next<int()>("MPI_Finalize")();
}
