// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <mpi.h>

#include "tests/comm/nccl/job.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/mpi_program.hpp"
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

int main(int argc, char** argv) { return shard8::tests::mpi_program(argc, argv, run); }
