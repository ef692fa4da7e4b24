// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "app/process.hpp"

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

#include "base/error.hpp"
#include "kernels/libraries.hpp"
#include "profile/report_files.hpp"
#include "tensor/runtime.hpp"

namespace shard8::app {

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
