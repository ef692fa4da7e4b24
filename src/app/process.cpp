// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "app/process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <condition_variable>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <sstream>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include "app/refusals.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "comm/agree.hpp"
#include "kernels/libraries.hpp"
#include "profile/report_files.hpp"
#include "tensor/runtime.hpp"

namespace shard8::app {

using base::ExitCode;

namespace {

/// Starts a process that holds this process's standard error, and with `both` its standard output, for so many seconds.
/// Nothing is said where it cannot be started.
void hold_outputs(const char* seconds, bool both) {
  posix_spawn_file_actions_t actions;
  if (::posix_spawn_file_actions_init(&actions) != 0) return;
  std::string program = "sleep", time = seconds;
  char* const arguments[] = {program.data(), time.data(), nullptr};
  pid_t process = 0;
  if (both || ::posix_spawn_file_actions_addclose(&actions, STDOUT_FILENO) == 0)
    static_cast<void>(::posix_spawnp(&process, program.c_str(), &actions, nullptr, arguments, environ));
  ::posix_spawn_file_actions_destroy(&actions);
}

}  // namespace

void StopRequests::begin_job(const comm::Environment& environment) {
  signals_.take_back();
  signals_.on_second([&environment](const std::string& what) { environment.abort(ExitCode::failed, what); });
}

void StopRequests::leave_launcher() {
  signals_.ignore();
  constexpr const char* kSetByHydra = "MPI_LOCALNRANKS";
  if (signals_.first() == 0 || std::getenv(kSetByHydra) == nullptr) return;
  // Hydra leaves pipes of all ranks open in every rank.
  constexpr int kDescriptors = 1024;
  for (int file = STDERR_FILENO + 1; file < kDescriptors; ++file) ::fcntl(file, F_SETFD, FD_CLOEXEC);
  // Chosen: by then all ranks have left MPI_Finalize and ended. Hydra looks for ended ranks when the first of the two
  // ends, and takes 0 for those that it finds after the second one.
  hold_outputs("0.3", true);
  hold_outputs("0.4", false);
}

void StopRequests::refuse_start() const {
  if (const int signal = signals_.first(); signal != 0)
    base::fail(ExitCode::failed, "stopped by {} before the first step", base::signal_name(signal));
}

train::Stopping::Sources StopRequests::sources(const comm::Communicator& world) const {
  train::Stopping::Sources sources;
  sources.signal = [this] { return signals_.first(); };
  sources.clock = [this] {
    using Seconds = std::chrono::duration<double>;
    return train::ClockTimes{Seconds(std::chrono::steady_clock::now() - began_).count(),
                             Seconds(std::chrono::system_clock::now().time_since_epoch()).count()};
  };
  SlurmJob job;
  at_stage(Stage::job, [&] { comm::agree(world, [&] { job = slurm_job(sources.clock().since_1970); }); });
  sources.job_end = job.end;
  if (!job.past_end.empty() && world.rank() == 0)
    base::Logger(0, world.size())
        .warn("SLURM_JOB_END_TIME is {}, which is over: it is not used as the end of this job", job.past_end);
  return sources;
}

SlurmJob slurm_job(double now) {
  const auto variable = [](const char* name) {
    const char* const value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  SlurmJob job;
  job.id = variable("SLURM_JOB_ID");
  const std::string restarts = variable("SLURM_RESTART_COUNT"), end = variable("SLURM_JOB_END_TIME");
  if (!restarts.empty()) {
    std::uint64_t count = 0;
    const char* const last = restarts.data() + restarts.size();
    const auto [rest, error] = std::from_chars(restarts.data(), last, count);
    if (error != std::errc() || rest != last)
      base::fail(ExitCode::environment,
                 "SLURM_RESTART_COUNT is '{}': it must be the number of times that Slurm has queued this job again; "
                 "unset it if Slurm has not",
                 base::quotable(restarts));
    job.requeued = count > 0;
  }
  job.end = train::job_end(end.c_str(), now);
  if (!end.empty() && !job.end) job.past_end = end;
  return job;
}

std::string stop_text(const train::StopReason& reason, std::int64_t next, std::int64_t steps, bool checkpoint,
                      std::optional<std::int64_t> earlier, bool restarts) {
  std::string rest = "without a checkpoint of this run: it cannot go on from here";
  if (earlier) rest = fmt::format("no checkpoint was written here: run again to go on from that of step {}", *earlier);
  if (checkpoint) rest = "a checkpoint of this run is there: run again to go on";
  if (checkpoint && !restarts)
    rest = "a checkpoint of this run is there: to go on, run again with checkpoint.restart = auto";
  return fmt::format("stopped by {} before step {} of {}; {}", train::name_of(reason), next, steps, rest);
}

base::ExitCode stop_code(bool checkpoint) { return checkpoint ? ExitCode::stopped : ExitCode::failed; }

bool on_terminal() {
  const char* const said = std::getenv("SHARD8_TERMINAL");
  return isatty(STDOUT_FILENO) == 1 || (said != nullptr && std::string_view(said) == "1");
}

int threads_from_environment() {
  const char* const text = std::getenv("OMP_NUM_THREADS");
  if (text == nullptr || *text == '\0') return 0;
  const std::string_view all(text);
  const std::string_view first = all.substr(0, all.find(','));  // a list is for nested regions
  int threads = 0;
  const auto [end, error] = std::from_chars(first.data(), first.data() + first.size(), threads);
  if (error != std::errc() || end != first.data() + first.size() || threads < 1)
    base::fail(base::ExitCode::environment, "OMP_NUM_THREADS is '{}': set it to a positive number or unset it", text);
  require_threads(threads);
  return threads;
}

namespace {

/// How many threads of `wanted` this process can have at once.
int threads_at_once(int wanted) {
  std::mutex mutex;
  std::condition_variable changed;
  bool over = false;
  std::vector<std::thread> threads;
  try {
    while (static_cast<int>(threads.size()) + 1 < wanted)
      threads.emplace_back([&] {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return over; });
      });
  } catch (const std::system_error&) {
  }
  {
    const std::lock_guard lock(mutex);
    over = true;
  }
  changed.notify_all();
  for (std::thread& thread : threads) thread.join();
  return static_cast<int>(threads.size()) + 1;
}

}  // namespace

void require_threads(int threads) {
  const auto processors = static_cast<int>(std::thread::hardware_concurrency());
  if (threads > kMostThreads)
    base::fail(base::ExitCode::environment,
               "this rank is to compute on {} threads, but a rank has at most {}: set OMP_NUM_THREADS to the cores of "
               "the rank",
               threads, kMostThreads);
  if (threads <= std::max(processors, 1)) return;
  if (const int found = threads_at_once(threads); found < threads)
    base::fail(base::ExitCode::environment,
               "this rank is to compute on {} threads, but the system gets it {}: raise the limit of processes "
               "(ulimit -u, or that of its control group), or set OMP_NUM_THREADS to the cores of the rank",
               threads, found);
}

int choose_threads(const comm::Node& node) {
  const int asked = threads_from_environment();
  return asked > 0 ? asked
                   : std::clamp(node.cores / node.ranks, 1, std::clamp(tensor::thread_limit(), 1, kMostThreads));
}

void require_pools(int threads, int kokkos) {
  const auto refuse = [&](std::string_view who, int found, std::string_view remedy) {
    base::fail(base::ExitCode::environment,
               "this rank is to compute on {} threads, but {} gets {}: {}, or set OMP_NUM_THREADS={}", threads, who,
               found, remedy, std::max(found, 1));
  };
  constexpr std::string_view kOfOpenMP = "unset OMP_THREAD_LIMIT, OMP_MAX_ACTIVE_LEVELS and OMP_DYNAMIC";
  if (const int found = tensor::count_threads(threads); found != threads) refuse("OpenMP", found, kOfOpenMP);
  if (kokkos != threads && kokkos != 1) refuse("Kokkos", kokkos, "unset KOKKOS_NUM_THREADS");
  if (const int found = kernels::blas_threads(threads); found != 0 && found != threads)
    refuse("the BLAS", found, "unset OPENBLAS_NUM_THREADS and GOTO_NUM_THREADS");
}

std::map<std::string, std::uint64_t, std::less<>> kilobytes_in(const std::string& file) {
  std::map<std::string, std::uint64_t, std::less<>> numbers;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string name, unit;
    std::uint64_t number = 0;
    if (words >> name >> number >> unit && unit == "kB" && name.ends_with(':'))
      numbers[name.substr(0, name.size() - 1)] = number * 1024;
  }
  return numbers;
}

ProcessMemory process_memory() {
  auto status = kilobytes_in("/proc/self/status");
  const ProcessMemory memory{.resident = status["VmRSS"], .peak = status["VmHWM"]};
  if (memory.peak == 0)
    base::fail(base::ExitCode::environment, "/proc/self/status does not tell the memory of this process");
  return memory;
}

std::uint64_t memory_growth(std::uint64_t before, std::uint64_t after) { return after > before ? after - before : 0; }

std::vector<std::pair<std::string, std::string>> relevant_environment() {
  // Variables that concern threads, memory, devices and their libraries, networks, file systems, and the job.
  constexpr std::string_view kPrefixes[] = {"OMP_",         "GOMP_",
                                            "KMP_",         "OPENBLAS_",
                                            "MKL_",         "BLIS_",
                                            "GOTO_",        "KOKKOS_",
                                            "MALLOC_",      "GLIBC_TUNABLES",
                                            "LD_PRELOAD",   "CUDA_",
                                            "CUBLAS",       "CUDNN_",
                                            "NVIDIA_",      "NCCL_",
                                            "MPIR_",        "MPICH_",
                                            "UCX_",         "FI_",
                                            "PSM",          "HDF5_",
                                            "SHARD8_",      "SLURM_JOB_ID",
                                            "SLURM_NTASKS", "SLURM_CPUS_PER_TASK"};
  return profile::variables_with(environ, kPrefixes);
}

}  // namespace shard8::app
