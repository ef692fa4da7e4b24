// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/lock.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "io/digest.hpp"
#include "tests/io/files.hpp"

namespace shard8 {
namespace {

namespace fs = std::filesystem;
using base::ExitCode;
using checkpoint::Lock;
using checkpoint::LockHolder;
using checkpoint::LockOptions;
using Seconds = std::chrono::duration<double>;

// Long enough for what must be seen at once, on a machine that is busy.
constexpr double kLongS = 30;
const LockOptions kLong{.limit_s = kLongS, .poll_s = 0.01, .say = {}};
const LockOptions kShort{.limit_s = 0.4, .poll_s = 0.01, .say = {}};

double seconds_of(const std::function<void()>& task) {
  const auto begin = std::chrono::steady_clock::now();
  task();
  return Seconds(std::chrono::steady_clock::now() - begin).count();
}

/// A process that takes the lock and holds it until it is killed.
class Holder {
 public:
  explicit Holder(const std::string& folder) {
    int ends[2] = {};
    EXPECT_EQ(::pipe(ends), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      const Lock lock(folder, "run of the child", kLong);
      const char ready = 'r';
      if (::write(ends[1], &ready, 1) != 1) ::_exit(1);
      for (;;) ::pause();
    }
    char ready = 0;
    EXPECT_EQ(::read(ends[0], &ready, 1), 1);
    ::close(ends[0]);
    ::close(ends[1]);
  }
  ~Holder() {
    kill();
    reap();
  }
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;

  void kill() const { ::kill(pid_, SIGKILL); }
  void reap() const { ::waitpid(pid_, nullptr, 0); }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = 0;
};

/// The file that a process makes before it replaces a text of the lock.
std::string claim_of(const test::TempFolder& folder, const std::string& text) {
  return folder / fmt::format("lock.claim-{:016x}", io::digest64(std::as_bytes(std::span(text))));
}

/// A holder that cannot be examined from here.
LockHolder elsewhere() {
  LockHolder holder = checkpoint::this_process("run 7");
  holder.host = "node17";
  holder.boot = "another";
  return holder;
}

TEST(LockText, RoundTrip) {
  LockHolder holder = checkpoint::this_process("run 1");
  holder.beats = 18446744073709551615ULL;
  EXPECT_GT(holder.start, 0);
  EXPECT_EQ(checkpoint::parse_lock(checkpoint::lock_text(holder)), holder);
  EXPECT_EQ(checkpoint::lock_text(holder).size(), checkpoint::lock_text(elsewhere()).size());
  holder.run = std::string(600, 'x');
  test::expect_error([&] { checkpoint::lock_text(holder); }, ExitCode::failed, {"at most 511 fit"});
}

TEST(LockText, Malformed) {
  const std::string good = checkpoint::lock_text(elsewhere());
  for (std::size_t length = 0; length < good.size(); ++length) {
    EXPECT_EQ(checkpoint::parse_lock(good.substr(0, length)), std::nullopt) << length;
  }
  for (const auto& [from, to] : {std::pair{"lock", "look"}, std::pair{"pid ", "pid x"}, std::pair{"start ", "start -"},
                                 std::pair{"host node17", "host \x1b[31m."}, std::pair{"boot", "pid "}}) {
    std::string bad = good;
    const std::string word = from;
    EXPECT_EQ(checkpoint::parse_lock(bad.replace(bad.find(word), std::string(to).size(), to)), std::nullopt) << to;
  }
}

TEST(Lock, IsMadeAndRemoved) {
  const test::TempFolder folder;
  {
    Lock lock(folder.path(), "run 1");
    EXPECT_EQ(checkpoint::parse_lock(test::read_bytes(folder / "lock")), checkpoint::this_process("run 1"));
    lock.beat();
    lock.beat();
    EXPECT_EQ(checkpoint::parse_lock(test::read_bytes(folder / "lock"))->beats, 2U);
  }
  EXPECT_FALSE(fs::exists(folder / "lock"));
  const Lock again(folder.path(), "run 2");
}

TEST(Lock, OneOfAProcess) {
  const test::TempFolder folder;
  const Lock lock(folder.path(), "run 1", kLong);
  test::expect_error([&] { const Lock second(folder.path(), "run 2", kLong); }, ExitCode::checkpoint,
                     {"lock': checkpoint.dir is in use by process " + std::to_string(::getpid()), "(run run 1)"});
}

TEST(Lock, IsRefusedWhileItsHolderLives) {
  const test::TempFolder folder;
  const Holder holder(folder.path());
  const double seconds = seconds_of([&] {
    test::expect_error([&] { const Lock lock(folder.path(), "run 1", kLong); }, ExitCode::checkpoint,
                       {"is in use by process " + std::to_string(holder.pid()) + " on host ", "(run run of the child)",
                        "wait for its end, or set checkpoint.dir to another folder"});
  });
  EXPECT_LT(seconds, kLongS / 2);
}

/// Without flock(), as on some file systems: the lock is a copy.
TEST(Lock, IsRefusedWhileItsHolderLivesWithoutFlock) {
  const test::TempFolder folder, copy;
  const Holder holder(folder.path());
  fs::copy_file(folder / "lock", copy / "lock");
  test::expect_error([&] { const Lock lock(copy.path(), "run 1", kLong); }, ExitCode::checkpoint, {"which is alive"});
}

TEST(Lock, OfAKilledHolderIsFreeAtOnce) {
  const test::TempFolder folder;
  for (const bool reaped : {false, true}) {
    const Holder holder(folder.path());
    holder.kill();
    if (reaped) {
      holder.reap();
    } else {  // the parent of a killed process may be slow to wait for it
      siginfo_t info = {};
      ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(holder.pid()), &info, WEXITED | WNOWAIT), 0);
    }
    ASSERT_TRUE(fs::exists(folder / "lock"));
    const double seconds = seconds_of([&] { const Lock lock(folder.path(), "run 1", kLong); });
    EXPECT_LT(seconds, kLongS / 2);
    EXPECT_FALSE(fs::exists(folder / "lock"));
  }
}

TEST(Lock, OfAnotherProcessWithTheSameId) {
  const test::TempFolder folder;
  LockHolder holder = checkpoint::this_process("run 0");
  holder.pid = ::getppid();
  holder.start = checkpoint::start_of_process(holder.pid).value();
  test::write_bytes(folder / "lock", checkpoint::lock_text(holder));
  test::expect_error([&] { const Lock lock(folder.path(), "run 1", kLong); }, ExitCode::checkpoint, {"is alive"});
  holder.start -= 1;
  test::write_bytes(folder / "lock", checkpoint::lock_text(holder));
  const double seconds = seconds_of([&] { const Lock lock(folder.path(), "run 1", kLong); });
  EXPECT_LT(seconds, kLongS / 2);
}

/// The clocks of the hosts and of the file server do not count.
TEST(Lock, OfAnotherHostIsFreeWhenItsHeartbeatStops) {
  const test::TempFolder folder;
  for (const auto hours : {-1000, 0, 1000}) {
    test::write_bytes(folder / "lock", checkpoint::lock_text(elsewhere()));
    fs::last_write_time(folder / "lock", fs::file_time_type::clock::now() + std::chrono::hours(hours));
    std::string said;
    LockOptions options = kShort;
    options.say = [&said](const std::string& text) { said = text; };
    const double seconds = seconds_of([&] { const Lock lock(folder.path(), "run 1", options); });
    EXPECT_GE(seconds, kShort.limit_s);
    EXPECT_NE(said.find("on host node17 (run run 7), which cannot be examined from here"), std::string::npos) << said;
  }
}

TEST(Lock, OfAnotherHostIsRefusedWhileItsHeartbeatCounts) {
  const test::TempFolder folder;
  LockHolder holder = elsewhere();
  test::write_bytes(folder / "lock", checkpoint::lock_text(holder));
  const auto past = fs::file_time_type::clock::now() - std::chrono::hours(1000);
  fs::last_write_time(folder / "lock", past);
  std::jthread other([&] {
    std::this_thread::sleep_for(Seconds(0.2));
    ++holder.beats;
    std::fstream file(folder / "lock", std::ios::in | std::ios::out | std::ios::binary);
    file << checkpoint::lock_text(holder) << std::flush;
    fs::last_write_time(folder / "lock", past);
  });
  const double seconds = seconds_of([&] {
    test::expect_error([&] { const Lock lock(folder.path(), "run 1", kLong); }, ExitCode::checkpoint,
                       {"on host node17 (run run 7), which is alive"});
  });
  EXPECT_LT(seconds, kLongS / 2);
}

/// A process that was killed while it made the file, or one that is just about to write it.
TEST(Lock, WithoutAHolderIsWatched) {
  const test::TempFolder folder;
  for (const std::string& text : {std::string(), std::string("x"), std::string(5000, 'x')}) {
    test::write_bytes(folder / "lock", text);
    const double seconds = seconds_of([&] {
      const Lock lock(folder.path(), "run 1", kShort);
      EXPECT_EQ(fs::file_size(folder / "lock"), checkpoint::lock_text(elsewhere()).size());
    });
    EXPECT_GE(seconds, kShort.limit_s);
  }
}

/// A process may be killed at any moment, so the file must not be there without its text.
TEST(Lock, IsNeverSeenWithoutItsText) {
  const test::TempFolder folder;
  const int unnamed = ::open(folder.path().c_str(), O_RDWR | O_TMPFILE, 0666);
  if (unnamed < 0) GTEST_SKIP() << "the file system has no O_TMPFILE";
  ::close(unnamed);
  // On a busy machine this process may not run for a while, so the child goes on until enough was seen.
  constexpr int kRounds = 300, kEnough = 20;
  const test::TempFolder signals;
  const auto enough = signals / "enough";
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto go_on = [&] { return !fs::exists(enough) && std::chrono::steady_clock::now() < end; };
    for (int i = 0; i < kRounds || go_on(); ++i) const Lock lock(folder.path(), "run of the child", kLong);
    ::_exit(0);
  }
  int seen = 0, bad = 0, status = 0;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    const int file = ::open((folder / "lock").c_str(), O_RDONLY);
    if (file < 0) continue;
    std::string text(1024, '\0');
    const auto got = ::read(file, text.data(), text.size());
    ::close(file);
    if (++seen == kEnough) test::write_bytes(enough, "");
    if (got <= 0 || !checkpoint::parse_lock(text.substr(0, static_cast<std::size_t>(got)))) ++bad;
  }
  EXPECT_EQ(status, 0);
  EXPECT_GT(seen, 0);
  EXPECT_EQ(bad, 0) << "of " << seen;
}

TEST(Lock, IsLost) {
  const test::TempFolder folder;
  {
    Lock lock(folder.path(), "run 1");
    fs::remove(folder / "lock");
    test::expect_error([&] { lock.beat(); }, ExitCode::checkpoint, {"the lock is lost: the file is gone"});
  }
  {
    Lock lock(folder.path(), "run 1");
    test::write_bytes(folder / "lock", checkpoint::lock_text(elsewhere()));
    test::expect_error([&] { lock.beat(); }, ExitCode::checkpoint,
                       {"it is now that of process ", "on host node17 (run run 7)", "writes no more checkpoints"});
  }
  EXPECT_TRUE(fs::exists(folder / "lock")) << "the lock of another run was removed";
}

TEST(Lock, StaysWithItsProcess) {
  const test::TempFolder folder;
  std::optional<Lock> lock(std::in_place, folder.path(), "run 1");
  const pid_t child = ::fork();
  if (child == 0) {
    lock.reset();
    ::_exit(0);
  }
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  lock->beat();
  test::expect_error([&] { const Lock second(folder.path(), "run 2", kLong); }, ExitCode::checkpoint, {"in use"});
}

TEST(Lock, SaysWhyItCannotBeTaken) {
  const test::TempFolder folder;
  test::expect_error([&] { const Lock lock(folder / "none", "run 1"); }, ExitCode::environment,
                     {"none/lock': cannot create: No such file or directory; set checkpoint.dir"});
  // Who only asks finds the same.
  const auto expect_refused = [&](const std::string& why) {
    test::expect_error([&] { const Lock lock(folder.path(), "run 1", kLong); }, ExitCode::environment, {why});
    test::expect_error([&] { checkpoint::require_lockable(folder.path(), "checkpoint.dir"); }, ExitCode::environment,
                       {why});
    fs::remove(folder / "lock");
  };
  ASSERT_EQ(::mkfifo((folder / "lock").c_str(), 0600), 0);
  expect_refused("lock': cannot be a lock, since it is no regular file; remove it, or set checkpoint.dir to another");
  fs::create_directory(folder / "lock");
  expect_refused("Is a directory");
  fs::create_symlink("/nothing/there", folder / "lock");
  expect_refused("cannot be a lock, since it is a link to nothing");
}

TEST(Lock, IsExaminedWithoutAChange) {
  const test::TempFolder folder;
  const auto expect_free = [&](const std::string& name) { checkpoint::require_lockable(name, "checkpoint.dir"); };
  expect_free(folder.path());
  expect_free(folder / "none/deeper");
  EXPECT_TRUE(fs::is_empty(folder.path()));
  const std::string dead = checkpoint::lock_text(elsewhere());
  test::write_bytes(folder / "lock", dead);
  expect_free(folder.path());
  EXPECT_EQ(test::read_bytes(folder / "lock"), dead);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1);
  test::expect_error([&] { expect_free("/proc/self/none"); }, ExitCode::environment, {"none/lock': cannot create: "});
}

/// A process was stopped or killed while it took the lock of a dead one over.
TEST(Lock, OfAHolderThatAnotherTakesOver) {
  const test::TempFolder folder;
  const std::string dead = checkpoint::lock_text(elsewhere());
  const std::string claim = claim_of(folder, dead);
  LockHolder other = checkpoint::this_process("run 2");
  for (const bool alive : {true, false}) {
    test::write_bytes(folder / "lock", dead);
    other.start -= alive ? 0 : 1;
    test::write_bytes(claim, checkpoint::lock_text(other));
    if (alive) {
      test::expect_error([&] { const Lock lock(folder.path(), "run 1", kShort); }, ExitCode::checkpoint,
                         {"(run run 2), which takes it over at this moment"});
      EXPECT_TRUE(fs::exists(claim));
      EXPECT_EQ(test::read_bytes(folder / "lock"), dead);
    } else {
      const Lock lock(folder.path(), "run 1", kShort);
      EXPECT_FALSE(fs::exists(claim));
    }
  }
  for (const std::string& text : {std::string(), checkpoint::lock_text(elsewhere())}) {
    test::write_bytes(folder / "lock", dead);
    test::write_bytes(claim, text);
    const double seconds = seconds_of([&] { const Lock lock(folder.path(), "run 1", kShort); });
    EXPECT_GE(seconds, 2 * kShort.limit_s);
    EXPECT_FALSE(fs::exists(claim));
  }
}

/// A process was killed when it had taken a lock over and had not yet removed its claim. The next holder does, and
/// leaves files of other names alone.
TEST(Lock, RemovesClaimsThatWereLeft) {
  const test::TempFolder folder;
  const std::vector<std::string> others = {"lock.claim-mine", "lock.claim-31F0c0ffee31F0c0", "lock.claim",
                                           "clock.claim-0"};
  for (const char* holder : {"", "dead"}) {
    const std::string claim = claim_of(folder, "an earlier text");
    for (const std::string& name : others) test::write_bytes(folder / name, "");
    test::write_bytes(claim, checkpoint::lock_text(elsewhere()));
    LockHolder dead = checkpoint::this_process("run 2");
    dead.start -= 1;
    if (*holder != '\0') test::write_bytes(folder / "lock", checkpoint::lock_text(dead));
    const Lock lock(folder.path(), "run 1", kLong);
    EXPECT_FALSE(fs::exists(claim)) << holder;
    for (const std::string& name : others) EXPECT_TRUE(fs::exists(folder / name)) << name;
  }
}

/// Many processes find the lock of a dead one: one gets it.
TEST(Lock, OneOfManyTakesIt) {
  constexpr int kProcesses = 8;
  for (const bool here : {true, false}) {
    for (int round = 0; round < 5; ++round) {
      const test::TempFolder folder;
      LockHolder dead = here ? checkpoint::this_process("run 0") : elsewhere();
      dead.start -= here ? 1 : 0;
      test::write_bytes(folder / "lock", checkpoint::lock_text(dead));
      const auto end_of_watch = std::chrono::steady_clock::now() + Seconds(kShort.limit_s);
      int go[2] = {}, results[2] = {};
      ASSERT_EQ(::pipe(go), 0);
      ASSERT_EQ(::pipe(results), 0);
      std::vector<pid_t> children;
      for (int i = 0; i < kProcesses; ++i) {
        children.push_back(::fork());
        if (children.back() != 0) continue;
        ::close(go[1]);
        char result = 'n', end = 0;
        std::optional<Lock> lock;
        LockOptions options = kShort;  // all end their watch at one time
        options.limit_s = Seconds(end_of_watch - std::chrono::steady_clock::now()).count();
        options.poll_s = options.limit_s;
        try {
          lock.emplace(folder.path(), "run " + std::to_string(i), options);
          result = 'y';
        } catch (const base::Error& error) {
          if (error.code() != ExitCode::checkpoint) result = 'e';
        }
        if (::write(results[1], &result, 1) != 1) ::_exit(1);
        while (::read(go[0], &end, 1) > 0) continue;  // until the parent closes it
        ::_exit(0);
      }
      std::string all(kProcesses, '?');
      for (char& one : all) ASSERT_EQ(::read(results[0], &one, 1), 1);
      for (const int end : {go[0], go[1], results[0], results[1]}) ::close(end);
      for (const pid_t child : children) ::waitpid(child, nullptr, 0);
      EXPECT_EQ(std::count(all.begin(), all.end(), 'y'), 1) << all;
      EXPECT_EQ(std::count(all.begin(), all.end(), 'e'), 0) << all;
      EXPECT_FALSE(fs::exists(claim_of(folder, checkpoint::lock_text(dead)))) << all;
    }
  }
}

}  // namespace
}  // namespace shard8
