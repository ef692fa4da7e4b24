// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>
#include <pthread.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "comm/host_waits.hpp"

namespace shard8::comm {

/// Initialises MPI and ends it; one per process. While the object lives, a rank that ends by exit() or by an exception
/// ends the whole job, because the other ranks would wait for it for ever. An exception that leaves a thread or a
/// destructor ends the job with that error's message and code. A rank whose host waits for other ranks longer than a
/// limit, or whose main thread makes no progress for as long, ends the job, too, with a message that names the wait or
/// the work.
class Environment {
 public:
  /// Initialises MPI with MPI_THREAD_FUNNELED; `world` is the communicator of all ranks. Throws
  /// Error(environment) when the library cannot. `limits` hold from here on, for the initialisation, too.
  Environment(int& argc, char**& argv, MPI_Comm world, const HangLimits& limits = {});
  ~Environment();
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

  MPI_Comm world() const { return world_; }
  int rank() const { return rank_; }
  int size() const { return size_; }

  /// What this rank's host waits for. Communicators note their waits there.
  HostWaits& waits() const { return waits_; }
  /// Sets the limits that hold from now on.
  void set_hang_limits(const HangLimits& limits);

  /// Throws Error(environment) when the ranks were not started as one job (see launch_problem()), or ends this process
  /// with the code of that error where another process reports it.
  void check_launch() const;

  /// Prints "shard8: rank N: message" on stderr and ends all ranks with `code`, or with 5 in place of 0. Any thread may
  /// call it. If MPI_Abort hangs for kAbortTime, this process ends by itself, and the launcher ends the others.
  [[noreturn]] void abort(base::ExitCode code, std::string_view message) const;

  static constexpr std::chrono::seconds kAbortTime{5};

  /// To be called last, by all ranks: this process is about to end with `code`. MPI_Finalize of MPICH before 4.2 may
  /// not return (pmodels/mpich#6596: over TCP, with more than two nodes, in about half of all jobs): a rank waits for
  /// the others in a barrier of the launcher, without the progress that another one needs to close its connection to
  /// it. With such a library, where all ranks have come to the end and MPI_Finalize takes kFinalizeTime, or half of the
  /// limit of hangs if that is less, this process leaves without it, by `before_leaving` and _exit(code), and rank 0
  /// says so. No rank needs another one any more, and Hydra and srun take the code as it is.
  void leave_with(int code, std::function<void()> before_leaving);

  static constexpr std::chrono::seconds kFinalizeTime{5};

 private:
  struct Life;
  void watch(const HangLimits& limits);
  bool all_have_come() const;
  [[noreturn]] void leave(pthread_t main) const;

  Life* const life_;  // outlives this object: exit() looks at it
  MPI_Comm world_;
  int rank_ = 0;
  int size_ = 1;
  mutable HostWaits waits_;
  std::chrono::milliseconds finalize_time_ = kFinalizeTime;
  std::optional<int> code_;               // of leave_with()
  std::function<void()> before_leaving_;  // the other argument of leave_with()
  std::optional<Watchdog> watchdog_;      // last: it looks at the others
};

/// Runs `body` after check_launch() and returns what it returns, the process' exit code. An error
/// that all ranks agreed on (AgreedError of all of them) is printed by rank 0, and its code is
/// returned on every rank. Any other exception is this rank's alone: it is printed with the rank's
/// number and ends the whole job at once with the error's code.
int run_guarded(const Environment& environment, const std::function<int()>& body);

/// The value of an environment variable, or nothing.
using Variables = std::function<std::optional<std::string>(const std::string& name)>;
Variables process_variables();

/// What is wrong with how the ranks were started, or nothing. The start is wrong if Slurm or a launcher that speaks
/// PMI, or that of Open MPI, started several processes but MPI counts another number of ranks, because the library did
/// not understand the launcher. After `srun --mpi=none`, for example, each task would train alone.
std::optional<std::string> launch_problem(const Variables& variable, int ranks);

/// What to add to the message that a job has too few ranks: which launcher this process has, by its variables, if MPI
/// counts one rank and the launcher may have started more. Empty if nothing says so.
std::string launcher_hint(const Variables& variable, int ranks);

/// Whether this process reports a launch_problem(). One of the processes that were started together reports it, since
/// these processes cannot agree.
bool reports_launch(const Variables& variable);

/// Whether the launcher says that all ranks are on one node: Hydra (mpiexec of MPICH) or Slurm. False if it says
/// nothing.
bool on_one_node(const Variables& variable);

/// To be called before MPI is initialised. If all ranks are on one node and MPI is MPICH, UCX is told to leave the
/// network out (UCX_TLS=self,sm), unless the user has chosen transports or devices for it. Ranks of a node do not need
/// the network, and with its TCP transport MPI_Finalize of MPICH 4.0 may not return (pmodels/mpich#6596): a rank waits
/// for the others without making progress, while another rank needs it to close their connection.
void prepare_mpi();

/// Room of a file system, in bytes.
struct Room {
  std::uint64_t total = 0, free = 0;
};
/// The room of a folder's file system; nothing if it cannot be found.
std::optional<Room> room_of(const std::string& folder);

/// Why MPI cannot start on this node, or nothing: UCX takes memory of /dev/shm for each rank, and ends the process in a
/// stack of its own where there is none. `library` is library_text(). Nothing for other libraries than MPICH's device
/// ch4:ucx, and where the user has chosen UCX's transports.
std::optional<std::string> shared_memory_problem(const Variables& variable, const std::string& library,
                                                 const std::optional<Room>& shared);

/// What the MPI library says of itself and how it was configured, in several lines. Works before MPI is initialised.
std::string library_text();
/// One line that names the MPI library and its version. Works before MPI is initialised.
std::string library_version();

}  // namespace shard8::comm
