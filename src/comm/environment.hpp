// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <functional>
#include <memory>
#include <string_view>

#include "base/exit_code.hpp"

namespace shard8::comm {

/// MPI from here to the end of its life; one per process. A rank that leaves by exit() or by an
/// exception while it lives ends the whole job: the others would wait for it for ever.
class Environment {
 public:
  /// Initialises MPI with MPI_THREAD_FUNNELED; `world` is the communicator of all ranks. Throws
  /// Error(environment) when the library cannot.
  Environment(int& argc, char**& argv, MPI_Comm world);
  ~Environment();
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

  MPI_Comm world() const { return world_; }
  int rank() const { return rank_; }
  int size() const { return size_; }

  /// Error(environment) when the ranks were not started as one job (see launch.hpp).
  void check_launch() const;

  /// Prints "shard8: rank N: message" on stderr and ends all ranks with `code` (never 0).
  [[noreturn]] void abort(base::ExitCode code, std::string_view message) const;

 private:
  struct Life;
  Life* life_;  // outlives this object: exit() looks at it
  MPI_Comm world_;
  int rank_ = 0;
  int size_ = 1;
};

/// Runs `body` after check_launch() and returns what it returns, the process' exit code. An error
/// that all ranks agreed on (AgreedError of all of them) is printed by rank 0, and its code is
/// returned on every rank. Any other exception is this rank's alone: it is printed with the rank's
/// number and ends the whole job at once with the error's code.
int run_guarded(const Environment& environment, const std::function<int()>& body);

}  // namespace shard8::comm
