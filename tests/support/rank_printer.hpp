// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <mpi.h>

#include <string>

namespace shard8::tests {

/// Prints the failures of a rank other than 0 (GoogleTest's own printer serves that one), each
/// once and with the rank before it. After each test
/// the ranks meet; if this rank failed and another does not come within 20 s (it may wait
/// in a collective that this one left), the job is aborted with the name of the test.
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
