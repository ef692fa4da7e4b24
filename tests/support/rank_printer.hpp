// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <mpi.h>

#include <string>

namespace shard8::tests {

/// Prints the failures of a rank other than 0, each once, with the rank in front. GoogleTest's own printer prints those
/// of rank 0. After each test the ranks wait for each other. If this rank failed and another rank does not arrive
/// within 20 s, the job is aborted with the name of the test: the other rank may wait in a collective that this rank
/// left.
class RankPrinter : public ::testing::EmptyTestEventListener {
 public:
  RankPrinter(MPI_Comm comm, int rank);

  void OnTestStart(const ::testing::TestInfo& info) override;
  void OnTestPartResult(const ::testing::TestPartResult& result) override;
  void OnTestEnd(const ::testing::TestInfo& info) override;

 private:
  MPI_Comm comm_;
  int rank_;
  std::string test_;
};

}  // namespace shard8::tests
