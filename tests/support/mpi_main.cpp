// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <mpi.h>

#include <optional>

#include "tests/support/cases.hpp"
#include "tests/support/execution.hpp"
#include "tests/support/mpi_program.hpp"
#include "tests/support/rank_printer.hpp"

#if defined(SHARD8_CUDA)
#include "tests/support/rank_device.hpp"
#endif

namespace {

/// The device of this rank. If tests need devices and there are fewer devices than ranks, nothing on every rank.
std::optional<int> device_of(MPI_Comm comm) {
#if defined(SHARD8_CUDA)
  return shard8::tests::rank_device(comm);
#else
  static_cast<void>(comm);
  return 0;
#endif
}

// Runs the tests. They fail on every rank if they fail on one. Rank 0 prints GoogleTest's own lines; the other ranks
// print only their failures.
int run(int argc, char** argv, MPI_Comm comm) {
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  const auto device = device_of(comm);
  if (!device) return 77;  // skipped
  int failed = shard8::tests::init_cases(argc, argv) ? 0 : 1;
  if (failed == 0) {
    auto& listeners = ::testing::UnitTest::GetInstance()->listeners();
    if (rank != 0) delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new shard8::tests::RankPrinter(comm, rank));
    const shard8::tests::Execution execution(*device);
    failed = RUN_ALL_TESTS();
  }
  int any_failed = 0;
  MPI_Allreduce(&failed, &any_failed, 1, MPI_INT, MPI_MAX, comm);
  return any_failed;
}

}  // namespace

int main(int argc, char** argv) { return shard8::tests::mpi_program(argc, argv, run); }
