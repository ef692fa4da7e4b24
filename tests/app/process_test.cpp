// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <string_view>
#include <vector>

#include "app/process.hpp"
#include "base/error.hpp"
#include "tests/io/files.hpp"

namespace shard8 {
namespace {

TEST(MemoryGrowth, IsWhatIsTakenSince) {
  EXPECT_EQ(app::memory_growth(100, 150), 50U);
  EXPECT_EQ(app::memory_growth(100, 100), 0U);
}

// Another process may free memory of the device while this one runs.
TEST(MemoryGrowth, IsNothingWhereLessIsTaken) { EXPECT_EQ(app::memory_growth(100, 99), 0U); }

TEST(ProcessMemory, GrowsByWhatIsWritten) {
  constexpr std::size_t kBytes = std::size_t{64} << 20;
  const auto before = app::process_memory();
  const std::vector<std::byte> written(kBytes, std::byte{1});
  EXPECT_GE(app::memory_growth(before.resident, app::process_memory().resident), kBytes * 9 / 10);
  EXPECT_GE(app::process_memory().peak, app::process_memory().resident);
}

TEST(ProcessThreads, AreRefusedBeforeTheyStart) {
  app::require_threads(1);
  app::require_threads(8);  // perhaps more than there are processors
  test::expect_error([] { app::require_threads(app::kMostThreads + 1); }, base::ExitCode::environment,
                     {"this rank is to compute on 513 threads, but a rank has at most 512"});
#if !defined(__SANITIZE_ADDRESS__)  // which maps more than this limit allows
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit few{std::size_t{2} << 30, std::size_t{2} << 30};  // each thread has a stack of some megabytes
    ::setrlimit(RLIMIT_AS, &few);
    try {
      app::require_threads(app::kMostThreads);
    } catch (const base::Error& error) {
      ::_exit(std::string_view(error.what()).find("but the system gets it ") != std::string_view::npos ? 7 : 8);
    }
    ::_exit(9);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 7);
#endif
}

}  // namespace
}  // namespace shard8
