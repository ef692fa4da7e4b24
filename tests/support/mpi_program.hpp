// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include "comm/environment.hpp"
#include "kernels/blas/blas_core.hpp"

namespace shard8::tests {

/// The main function of a test's MPI program: sets MPI up as the program does, calls run(argc, argv, comm) with a
/// duplicate of MPI_COMM_WORLD, ends MPI, and returns what `run` returned.
template <class Run>
int mpi_program(int argc, char** argv, const Run& run) {
  kernels::choose_blas_core();
  comm::prepare_mpi();
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  const int code = run(argc, argv, comm);
  MPI_Comm_free(&comm);
  MPI_Finalize();
  return code;
}

}  // namespace shard8::tests
