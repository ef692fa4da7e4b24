// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <mpi.h>

#include "comm/launch.hpp"
#include "tests/comm/nccl/job.hpp"
#include "tests/comm/nccl/rank_device.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/rank_printer.hpp"

namespace {

// As tests/support/mpi_main.cpp, with a device for each rank and without Kokkos.
int run(int argc, char** argv, MPI_Comm comm) {
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  if (!shard8::comm::tests::take_device(comm)) return shard8::comm::tests::kSkipped;
  int failed = shard8::tests::init_cases(argc, argv) ? 0 : 1;
  if (failed == 0) {
    auto& listeners = ::testing::UnitTest::GetInstance()->listeners();
    if (rank != 0) delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new shard8::tests::RankPrinter(comm, rank));
    failed = RUN_ALL_TESTS();
  }
  shard8::comm::tests::jobs().clear();
  int any_failed = 0;
  MPI_Allreduce(&failed, &any_failed, 1, MPI_INT, MPI_MAX, comm);
  return any_failed;
}

}  // namespace

int main(int argc, char** argv) {
  shard8::comm::prepare_mpi();
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  const int failed = run(argc, argv, comm);
  MPI_Comm_free(&comm);
  MPI_Finalize();
  return failed;
}
