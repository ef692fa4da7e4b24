// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// Writing where there is no room: a limit of file sizes (ulimit -f) and a full disk.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "io/shard_file.hpp"
#include "tests/io/files.hpp"
#include "tests/io/shards.hpp"

using namespace shard8;
using test::shard_box;
using test::write_shard;

namespace {

constexpr auto kBlock = static_cast<std::int64_t>(io::kShardBlock);

/// Sets the soft limit of file sizes for a scope.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit now = {bytes, before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &now), 0);
  }
  ~FileSizeLimit() { setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_ = {};
};

void expect_no_signal() {
  sigset_t pending, blocked;
  sigpending(&pending);
  pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  EXPECT_EQ(sigismember(&pending, SIGXFSZ), 0);
  EXPECT_EQ(sigismember(&blocked, SIGXFSZ), 0);
}

}  // namespace

TEST(ShardFullDisk, LimitOfFileSizesIsFoundFirst) {
  const test::TempFolder folder;
  io::IoThread io;
  {
    const FileSizeLimit limit(10 << 20);
    test::expect_error(
        [&] {
          io::ShardWriter(io, folder / "a.h5", {"run", 1}, {shard_box("a", "u8", {4 * kBlock})});
        },
        base::ExitCode::failed, {"a.h5': may need 1", "this process may write files of 10485760; raise the limit"});
    expect_no_signal();
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  write_shard(io, folder / "a.h5", {shard_box("a", "u8", {4 * kBlock})});  // HDF5 is as it was
}

TEST(ShardFullDisk, LimitThatIsLoweredMeanwhile) {
  const test::TempFolder folder;
  io::IoThread io;
  {
    io::ShardWriter writer(io, folder / "a.h5", {"run", 1}, {shard_box("a", "u8", {4 * kBlock})});
    const FileSizeLimit limit(10 << 20);
    test::expect_error([&] { writer.write(0, 0, test::Bytes(io::kShardBlock * 4)); }, base::ExitCode::failed,
                       {"a.h5': cannot write 4194304 bytes at byte ", "File too large; raise the limit", "ulimit -f"});
    expect_no_signal();
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));

  auto file = io::RawFile::create(folder / "b");
  const FileSizeLimit limit(1000);
  test::expect_error([&] { file.set_length(1001); }, base::ExitCode::failed,
                     {"b': cannot make it 1001 bytes long: File too large; raise"});
  expect_no_signal();
  file.set_length(1000);
}

// In a child process, with a file system of 8 MiB that only this child sees.
TEST(ShardFullDisk, NoRoomOnTheDisk) {
  constexpr int kNotAllowed = 77;
  const test::TempFolder folder;
  const auto child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (::unshare(CLONE_NEWNS) != 0 || ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("tmpfs", folder.path().c_str(), "tmpfs", 0, "size=8m") != 0) {
      ::_exit(kNotAllowed);
    }
    io::IoThread io;
    for (int i = 0; i < 3; ++i) {
      test::expect_error(
          [&] {
            io::ShardWriter(io, folder / "a.h5", {"run", 1}, {shard_box("a", "u8", {4 * kBlock})});
          },
          base::ExitCode::failed,
          {"a.h5': cannot make it 1", "No space left on device; the disk or the quota is full: make room"});
      EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
    }
    {
      auto file = io::RawFile::create(folder / "b");  // where no room can be reserved
      test::expect_error([&] { file.write(test::Bytes(3 * io::kShardBlock), 0); }, base::ExitCode::failed,
                         {"b': cannot write 12582912 bytes at byte 0: No space left on device; the disk"});
    }
    std::filesystem::remove(folder / "b");
    const auto shard = write_shard(io, folder / "a.h5", {shard_box("a", "u8", {kBlock})});
    io::ShardReader(folder / "a.h5", shard.summary).verify_all();
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  if (WEXITSTATUS(status) == kNotAllowed) GTEST_SKIP() << "this user may not mount a file system";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}
