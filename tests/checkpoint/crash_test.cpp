// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "checkpoint/directory.hpp"
#include "tests/checkpoint/checkpoints.hpp"
#include "tests/checkpoint/system_calls.hpp"

namespace shard8 {
namespace {

using checkpoint::Directory;
using Task = std::function<void(const Directory&)>;

constexpr int kDone = 100, kThrew = 101;

/// Runs a task in a child that ends after its n-th system call. False if the task made fewer.
bool crashes_after(int n, const Directory& directory, const Task& task) {
  const pid_t child = ::fork();
  if (child == 0) {
    test::exit_after(n);
    try {
      task(directory);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "call %d: %s\n", n, error.what());
      ::_exit(kThrew);
    }
    ::_exit(kDone);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_NE(WEXITSTATUS(status), kThrew);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/// What a checkpoint holds, if it is all of one writing.
std::string content_of(const Directory& directory, std::int64_t step) {
  const auto manifest = directory.open(step);
  std::string content = test::read_bytes(directory.folder_of(step) + "/shard_r0000.h5");
  const auto expected = manifest.serial == 1 ? "old" : "the new one";
  EXPECT_EQ(content, expected) << "a manifest and data of two writings";
  return content;
}

/// Ends `task` after each of its system calls, then recover() after each of its own. Then the newest checkpoint is the
/// old or the new one, and nothing else is left.
void crash_everywhere(const Task& prepare, const Task& task, int least_calls) {
  int calls = 0, old = 0, replaced = 0;
  for (int n = 1;; ++n) {
    bool crashed = false, again = true;
    for (int m = 1; again; ++m) {
      const test::TempFolder folder;
      const Directory directory(folder.path());
      prepare(directory);
      crashed = crashes_after(n, directory, task);
      again = crashes_after(m, directory, [](const Directory& d) { d.recover(); });
      directory.recover();
      const auto scan = directory.scan();
      ASSERT_FALSE(scan.usable.empty()) << "none is left after call " << n << " and call " << m << " of recover()";
      EXPECT_TRUE(scan.unusable.empty()) << scan.unusable[0].why;
      ++(content_of(directory, scan.usable[0].step) == "old" ? old : replaced);
      for (const std::string& name : checkpoint::names_in(folder.path())) {
        EXPECT_TRUE(checkpoint::step_of(name) || name == "latest") << name << " is left after call " << n;
      }
    }
    if (!crashed) break;
    calls = n;
  }
  EXPECT_GE(calls, least_calls);
  EXPECT_GT(old, 0);
  EXPECT_GT(replaced, 0);
}

void save_old(const Directory& directory) { test::save_step(directory, 10, "old"); }

TEST(Crash, InTheCommitOfAnotherStep) {
  crash_everywhere(
      save_old, [](const Directory& d) { test::save_step(d, 20, "the new one"), d.retain(1, "run 1"); }, 16);
}

TEST(Crash, InTheCommitOfTheSameStep) {
  crash_everywhere(
      save_old, [](const Directory& d) { test::save_step(d, 10, "the new one"), d.retain(1, "run 1"); }, 16);
}

/// As above, after a run that was killed and left both.
TEST(Crash, InTheCommitOfTheSameStepWithLeftovers) {
  const Task prepare = [](const Directory& d) {
    save_old(d);
    test::write_bytes(d.begin(10) + "/shard_r0000.h5", "cut");
    std::filesystem::create_directory(d.folder_of(10) + ".old");
    test::write_bytes(d.folder_of(10) + ".old/shard_r0000.h5", "half removed");
  };
  crash_everywhere(
      prepare, [](const Directory& d) { test::save_step(d, 10, "the new one"); }, 16);
}

}  // namespace
}  // namespace shard8
