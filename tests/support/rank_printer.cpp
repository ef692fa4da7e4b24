// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/support/rank_printer.hpp"

#include <chrono>
#include <cstdio>
#include <thread>

namespace shard8::tests {

RankPrinter::RankPrinter(MPI_Comm comm, int rank) : comm_(comm), rank_(rank) {}

void RankPrinter::OnTestStart(const ::testing::TestInfo& info) {
  test_ = std::string(info.test_suite_name()) + "." + info.name();
}

// GoogleTest holds its lock here, so that this function must not call GoogleTest.
void RankPrinter::OnTestPartResult(const ::testing::TestPartResult& result) {
  if (rank_ == 0 || result.passed()) return;
  std::string text = "[rank " + std::to_string(rank_) + "] ";
  if (result.file_name() != nullptr) {
    text += std::string(result.file_name()) + ":" + std::to_string(result.line_number()) + ": ";
  }
  text += (result.failed() ? "failure in " : "skipped: ") + test_ + "\n" + result.message() + "\n";
  std::fputs(text.c_str(), stderr);
  std::fflush(stderr);
}

void RankPrinter::OnTestEnd(const ::testing::TestInfo& info) {
  const bool failed = info.result()->Failed();
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Ibarrier(comm_, &request);
  for (int done = 0; done == 0;) {
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (done != 0) break;
    if (failed && std::chrono::steady_clock::now() > limit) {
      std::fprintf(stderr, "[rank %d] %s failed here, and the other ranks did not end it within 20 s\n", rank_,
                   test_.c_str());
      std::fflush(stderr);
      MPI_Abort(comm_, 1);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(1));
  }
}

}  // namespace shard8::tests
