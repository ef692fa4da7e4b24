// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

// Shard files that are damaged, cut, exchanged or cannot be read: each is an Error(checkpoint) that names the file.

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <functional>

#include "io/shard_file.hpp"
#include "tests/io/files.hpp"
#include "tests/io/shards.hpp"

using namespace shard8;
using test::read_all;
using test::shard_box;
using test::write_shard;

namespace {

std::vector<io::ShardBox> few_boxes() {
  return {shard_box("a.weight", "fp32", {5, 7}), shard_box("a.weight", "exp_avg", "bf16", {5, 7}, {1, 3, 2, 5}),
          shard_box("b.bias", "e4m3", {3})};
}

template <class Action>
bool is_refused(Action&& action) {
  try {
    action();
    return false;
  } catch (const base::Error& error) {
    return error.code() == base::ExitCode::checkpoint &&
           std::string_view(error.what()).find("a.h5'") != std::string_view::npos;
  }
}

}  // namespace

TEST(ShardDamage, AFlippedBitAnywhereIsFound) {
  const test::TempFolder folder;
  io::IoThread io;
  const auto path = folder / "a.h5";
  const auto shard = write_shard(io, path, few_boxes());
  const std::string bytes = test::read_bytes(path);
  const int file = ::open(path.c_str(), O_RDWR);
  ASSERT_GE(file, 0);
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    const char flipped = static_cast<char>(bytes[at] ^ (1 << (at % 8)));
    ASSERT_EQ(::pwrite(file, &flipped, 1, static_cast<off_t>(at)), 1);
    ASSERT_TRUE(is_refused([&] { io::ShardReader(path, shard.summary).verify_all(); })) << "byte " << at;
    ASSERT_TRUE(is_refused([&] {
      const io::ShardReader reader(path, shard.summary);
      for (std::size_t i = 0; i < reader.boxes().size(); ++i) read_all(reader, i);
      reader.verify_rest();
    })) << "byte "
        << at;
    ASSERT_EQ(::pwrite(file, &bytes[at], 1, static_cast<off_t>(at)), 1);
  }
  ::close(file);
  io::ShardReader(path, shard.summary).verify_all();
}

TEST(ShardDamage, NamesWhatIsDamaged) {
  const test::TempFolder folder;
  io::IoThread io;
  const auto path = folder / "a.h5";
  auto boxes = few_boxes();
  boxes.push_back(shard_box("c.weight", "u8", {3, static_cast<std::int64_t>(io::kShardBlock)}));
  const auto shard = write_shard(io, path, boxes);
  std::string bytes = test::read_bytes(path);
  const auto large = io::ShardReader(path, shard.summary).boxes()[3];
  bytes[large.offset + io::kShardBlock] ^= 1;
  test::write_bytes(path, bytes);
  const io::ShardReader reader(path, shard.summary);
  const auto first = large.offset + io::kShardBlock;
  test::expect_error([&] { reader.verify_all(); }, base::ExitCode::checkpoint,
                     {"a.h5': 'c.weight', master, rows 0 to 3, columns 0 to 4194304: damaged in bytes " +
                          fmt::format("{} to {}", first, first + io::kShardBlock),
                      "use another checkpoint"});
  reader.verify_rest();
  test::Bytes row(io::kShardBlock);
  for (const std::int64_t good : {0, 2}) reader.read(3, {good, 1, 0, large.box.cols}, row.data(), large.box.cols);
  EXPECT_TRUE(is_refused([&] { reader.read(3, {1, 1, 0, large.box.cols}, row.data(), large.box.cols); }));
  EXPECT_TRUE(is_refused([&] { reader.read(3, {0, 3, 5, 1}, row.data(), 1); }));

  bytes[large.offset + io::kShardBlock] ^= 1;
  bytes[0] ^= 1;
  test::write_bytes(path, bytes);
  test::expect_error([&] { reader.verify_rest(); }, base::ExitCode::checkpoint,
                     {"a.h5': damaged outside of its tensors and its index"});
}

TEST(ShardDamage, AnotherLengthIsFound) {
  const test::TempFolder folder;
  io::IoThread io;
  const auto path = folder / "a.h5";
  const auto shard = write_shard(io, path, few_boxes());
  const std::string bytes = test::read_bytes(path);
  for (std::size_t length = 0; length < bytes.size(); length += length < 5 ? 1 : bytes.size() / 50) {
    test::write_bytes(path, bytes.substr(0, length));
    test::expect_error([&] { io::ShardReader(path, shard.summary); }, base::ExitCode::checkpoint,
                       {fmt::format("a.h5': has {} bytes, the manifest says {}", length, bytes.size())});
  }
  test::write_bytes(path, bytes + '\0');
  EXPECT_TRUE(is_refused([&] { io::ShardReader(path, shard.summary); }));

  test::write_bytes(path, bytes);
  const io::ShardReader reader(path, shard.summary);
  std::filesystem::resize_file(path, shard.summary.length / 2);  // while it is open
  test::expect_error([&] { reader.verify_all(); }, base::ExitCode::checkpoint,
                     {"a.h5': bytes", "are needed, but it has"});
}

TEST(ShardDamage, AnotherSummaryIsRefused) {
  const test::TempFolder folder;
  io::IoThread io;
  const auto path = folder / "a.h5";
  const auto shard = write_shard(io, path, few_boxes());
  const auto refused = [&](const std::function<void(io::ShardSummary&)>& change, const std::string& part) {
    auto summary = shard.summary;
    change(summary);
    test::expect_error([&] { io::ShardReader(path, summary).verify_all(); }, base::ExitCode::checkpoint,
                       {"a.h5': ", part});
  };
  refused([](auto& s) { s.index_digest[31] ^= 1; }, "the manifest: its digest is " + shard.summary.index_digest);
  refused([](auto& s) { s.index_digest = "\x1b[31m"; }, "needed is ?[31m");
  refused([](auto& s) { s.rest_digest.clear(); }, "damaged outside of");
  refused([](auto& s) { s.index_offset -= 1; }, "its index is damaged, or not the one of the manifest");
  refused([](auto& s) { s.index_bytes -= 1; }, "its index is one of run 'run-1' after step 1200, not the one");
  refused([](auto& s) { s.index_bytes = 0; }, "its index is damaged");
  refused([](auto& s) { s.index_bytes = s.length; }, "by the manifest, the index has");
  refused([](auto& s) { s.index_offset = UINT64_MAX; }, "by the manifest, the index has");
  refused([](auto& s) { s.length += 1; }, "the manifest says");
}

TEST(ShardDamage, FilesOfOtherRunsAreRefused) {
  const test::TempFolder folder;
  io::IoThread io;
  const auto path = folder / "a.h5";
  const auto shard = write_shard(io, path, few_boxes());
  std::filesystem::remove(path);
  write_shard(io, path, few_boxes(), {"run-2", 1200});
  test::expect_error([&] { io::ShardReader(path, shard.summary); }, base::ExitCode::checkpoint,
                     {"its index is one of run 'run-2' after step 1200, not the one of the manifest"});
  std::filesystem::remove(path);
  write_shard(io, path, few_boxes(), {"run-1", 1300});
  test::expect_error([&] { io::ShardReader(path, shard.summary); }, base::ExitCode::checkpoint, {"after step 1300"});
}

TEST(ShardDamage, FilesThatCannotBeRead) {
  const test::TempFolder folder;
  io::IoThread io;
  const auto path = folder / "a.h5";
  const auto refused = [&](const std::string& part) {
    test::expect_error([&] { io::ShardReader(path, {}); }, base::ExitCode::checkpoint, {"a.h5': ", part});
  };
  refused("cannot open for reading: No such file or directory; check");
  std::filesystem::create_directory(path);
  refused("not a regular file");
  std::filesystem::remove(path);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  refused("not a regular file");
  std::filesystem::remove(path);

  const auto shard = write_shard(io, path, few_boxes());
  ASSERT_EQ(::chmod(path.c_str(), 0), 0);
  const bool root = ::geteuid() == 0;  // who reads everything
  constexpr uid_t kNobody = 65534;
  if (root && ::seteuid(kNobody) != 0) GTEST_SKIP() << "cannot become another user";
  test::expect_error([&] { io::ShardReader(path, shard.summary); }, base::ExitCode::checkpoint, {"Permission denied"});
  ASSERT_TRUE(!root || ::seteuid(0) == 0);
}

// Writing where there is no room: a limit of file sizes (ulimit -f) and a full disk.

using namespace shard8;
using test::shard_box;
using test::write_shard;

namespace {

constexpr auto kDamagedBlock = static_cast<std::int64_t>(io::kShardBlock);

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
          io::ShardWriter(io, folder / "a.h5", {"run", 1}, {shard_box("a", "u8", {4 * kDamagedBlock})});
        },
        base::ExitCode::failed, {"a.h5': may need 1", "this process may write files of 10485760; raise the limit"});
    expect_no_signal();
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  write_shard(io, folder / "a.h5", {shard_box("a", "u8", {4 * kDamagedBlock})});  // HDF5 is as it was
}

TEST(ShardFullDisk, LimitThatIsLoweredMeanwhile) {
  const test::TempFolder folder;
  io::IoThread io;
  {
    io::ShardWriter writer(io, folder / "a.h5", {"run", 1}, {shard_box("a", "u8", {4 * kDamagedBlock})});
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
            io::ShardWriter(io, folder / "a.h5", {"run", 1}, {shard_box("a", "u8", {4 * kDamagedBlock})});
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
    const auto shard = write_shard(io, folder / "a.h5", {shard_box("a", "u8", {kDamagedBlock})});
    io::ShardReader(folder / "a.h5", shard.summary).verify_all();
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  if (WEXITSTATUS(status) == kNotAllowed) GTEST_SKIP() << "this user may not mount a file system";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}
