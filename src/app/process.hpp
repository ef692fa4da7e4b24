// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/stop_signals.hpp"
#include "comm/communicator.hpp"
#include "comm/environment.hpp"
#include "comm/node.hpp"
#include "train/stopping.hpp"

namespace shard8::app {

/// The sources of this process's stop requests: signals and clocks. Made at the begin of a run's process.
class StopRequests {
 public:
  /// From now on a second signal ends all ranks, with the exit code 5. Before that a second signal ends this process
  /// alone.
  void begin_job(const comm::Environment& environment);
  /// From now on a second signal ends this process alone. To be called before the environment goes.
  void end_job() { signals_.on_second({}); }

  /// To be called last, when MPI has ended. From now on SIGTERM, SIGUSR1, SIGINT, SIGHUP and SIGPIPE are ignored: `srun
  /// --kill-on-bad-exit` sends SIGTERM to ranks that leave later than the first one, and takes the signal for the code
  /// of a rank that dies of it. Once MPICH's mpiexec has passed on a signal, it takes the exit codes only of ranks that
  /// it finds ended while a process of their node still holds a rank's outputs, and 0 for others. If a signal came,
  /// this function therefore starts processes that hold the outputs a moment longer than this rank.
  void leave_launcher();

  bool signalled() const { return signals_.first() != 0; }
  /// Throws Error(failed) when a signal came: the run ends before its first step.
  void refuse_start() const;
  /// The sources of stop requests for train::Stopping. Says on rank 0 when SLURM_JOB_END_TIME is not used.
  /// AgreedError(environment) of slurm_job(), as Stage::job. Collective.
  train::Stopping::Sources sources(const comm::Communicator& world) const;

 private:
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  base::StopSignals signals_;
};

/// What Slurm's variables say of this process's job.
struct SlurmJob {
  std::string id;                  ///< SLURM_JOB_ID; empty: none
  bool requeued = false;           ///< SLURM_RESTART_COUNT is above 0
  std::optional<double> end = {};  ///< train::job_end() of SLURM_JOB_END_TIME
  std::string past_end{};          ///< the text of SLURM_JOB_END_TIME where that time is over
};

/// Reads the variables. `now`: seconds since 1970. Error(environment) when one that must be a number is none.
SlurmJob slurm_job(double now);

/// The line of a report on a run that stopped before step number `next` of `steps`. `checkpoint`: a checkpoint was
/// written of the state where the run stopped. `earlier`: the step of the last other checkpoint from which the run
/// could go on, if there is one. `restarts`: the same command goes on from the checkpoint.
std::string stop_text(const train::StopReason& reason, std::int64_t next, std::int64_t steps, bool checkpoint,
                      std::optional<std::int64_t> earlier, bool restarts);

/// The exit code of a run that stopped: `failed` where this stop wrote no checkpoint, even if there is an earlier one,
/// so that a job which is queued again for every code `stopped` does not repeat the same steps for ever.
base::ExitCode stop_code(bool checkpoint);

// What the system gave this process: terminal, threads, memory, environment.

/// Whether rank 0 prints to a terminal. A launcher puts a pipe in between, so scripts/run sets SHARD8_TERMINAL.
bool on_terminal();

/// The most threads of a rank: Kokkos keeps those of OpenMP in a table of so many entries, and does not check the
/// table's end.
inline constexpr int kMostThreads = 512;

/// Threads of a rank: threads_from_environment(), or without it the node's cores divided by its ranks, at least 1 and
/// at most kMostThreads and what OpenMP lets a process have. Errors are those of threads_from_environment().
int choose_threads(const comm::Node& node);

/// Error(environment), with both numbers, unless every pool of threads that computes for this rank has `threads` of
/// them: OpenMP, the BLAS, and Kokkos, which has `kokkos` (1: it may be one without threads). A BLAS that finds fewer
/// threads than it has shared a product among waits for ever.
void require_pools(int threads, int kokkos);

/// Error(environment) if this process cannot have so many threads. Starts no region of OpenMP, which would end the
/// process then.
void require_threads(int threads);

/// The number in OMP_NUM_THREADS, the first one of a list; 0 if the variable is not set or empty. Error(environment)
/// when the number is not positive, and the error of require_threads().
int threads_from_environment();

/// Bytes of host memory that this process has, as the system counts them (resident set).
struct ProcessMemory {
  std::uint64_t resident = 0;  ///< now
  std::uint64_t peak = 0;      ///< the most so far
};

/// Reads a file such as /proc/meminfo or /proc/self/status, which has lines "name: number kB". Returns the number of
/// bytes for each name of such a line; lines of other forms are ignored. Returns nothing if the file cannot be read.
std::map<std::string, std::uint64_t, std::less<>> kilobytes_in(const std::string& file);

/// Reads /proc/self/status. Error(environment) if the file is missing or does not have the numbers.
ProcessMemory process_memory();

/// after − before, the growth between two counts of bytes; 0 if `after` is smaller: another process may have freed
/// memory of the device in between.
std::uint64_t memory_growth(std::uint64_t before, std::uint64_t after);

/// The variables of this process's environment that change what a run does or how fast it is, chosen by the beginnings
/// of their names: name and value, ordered by name, without those that may hold secrets (profile::variables_with).
std::vector<std::pair<std::string, std::string>> relevant_environment();

}  // namespace shard8::app
