// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <thread>

#include "checkpoint/directory.hpp"
#include "tests/restart/faulty.hpp"
#include "tests/restart/program.hpp"

// What goes wrong while a run writes checkpoints: the user is warned, training goes on, and nothing that was good is
// damaged.

namespace shard8 {
namespace {

namespace fs = std::filesystem;

class FullDisk : public test::Faulty {};
class KilledRun : public test::Faulty {};
class TakenName : public test::Faulty {};
class LostLock : public test::Faulty {};
class TwoRuns : public test::Faulty {};
class Clock : public test::Faulty {};

/// Waits up to 20 s until something is true of a run that has not ended.
void wait_until(test::ProgramRun& run, const char* what, const std::function<bool()>& is_true) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!is_true()) {
    ASSERT_FALSE(run.ended()) << "the run has ended before " << what << "\n" << run.output();
    ASSERT_LT(std::chrono::steady_clock::now(), end) << "waited in vain until " << what << "\n" << run.output();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

void limit_files(const test::ProgramRun& run, rlim_t bytes) {
  const rlimit limit = {bytes, RLIM_INFINITY};
  for (const pid_t rank : run.ranks()) ASSERT_EQ(::prlimit(rank, RLIMIT_FSIZE, &limit, nullptr), 0);
}

/// The limit is lowered while the run trains, and raised again: libraries make large files when a run starts.
TEST_F(FullDisk, LimitOfFileSizes) {
  const auto before = test::digests_of(checkpoints());
  const std::vector<std::string> arguments = {"run.steps=1000000",   "checkpoint.every=20", "checkpoint.dir=limited",
                                              "model.vocab=4000",    "output.dir=large",    "checkpoint.restart=none",
                                              "checkpoint.keep=1000"};
  test::ProgramRun run(program(arguments));
  const auto count = [&] { return checkpoint::Directory((folder() / "limited").string()).scan().usable.size(); };
  wait_until(run, "there is a checkpoint", [&] { return count() > 0; });
  limit_files(run, 1'000'000);  // above what metrics.jsonl has by then, below a shard file
  wait_until(run, "the run says so", [&] { return run.output().find("training goes on") != std::string::npos; });
  limit_files(run, RLIM_INFINITY);
  const auto written = count();
  wait_until(run, "it writes checkpoints again", [&] { return count() > written; });
  for (const pid_t rank : run.ranks()) ::kill(rank, SIGTERM);
  const auto end = run.wait();
  EXPECT_EQ(end.code, 75) << end.output;
  expect_says(end, {"no checkpoint was written: rank ", "limited/step_", ".tmp/shard_r000", "raise the limit",
                    "training goes on"});
  test::newest_checkpoint(folder() / "limited");
  EXPECT_EQ(test::digests_of(checkpoints()), before);
}

/// A file system that only this process and its children see. False if this user may not mount it.
bool mount_small_disk(const fs::path& at, const char* size) {
  return ::unshare(CLONE_NEWNS) == 0 && ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount("tmpfs", at.c_str(), "tmpfs", 0, size) == 0;
}

TEST_F(FullDisk, NoRoom) {
  fs::create_directory(folder() / "disk");
  if (!mount_small_disk(folder() / "disk", "size=800k")) GTEST_SKIP() << "this user may not mount a file system";
  fs::copy(older(), folder() / "disk/step_00000002", fs::copy_options::recursive);
  fs::copy(newest(), folder() / "disk/step_00000004", fs::copy_options::recursive);
  const auto before = test::digests_of(folder() / "disk");
  for (const char* files : {"rank", "node"}) {
    const auto end = run({"checkpoint.dir=disk", std::string("checkpoint.files=") + files});
    expect_whole(end, folder());
    expect_says(end, {"no checkpoint was written: rank ", "disk/step_00000006.tmp/", "No space left on device",
                      "make room", "training goes on"});
    EXPECT_EQ(test::digests_of(folder() / "disk"), before);
  }
  fs::remove_all(folder() / "disk/step_00000002");
  const auto end = run({"checkpoint.dir=disk", "checkpoint.keep=1"});  // now there is room for one more
  expect_whole(end, folder());
  EXPECT_EQ(test::newest_checkpoint(folder() / "disk").substr(folder().string().size()), "/disk/step_00000008");
  ::umount((folder() / "disk").c_str());
}

/// A run was killed after it wrote the newest checkpoint and before it removed the one before. The run that goes on
/// writes no checkpoint.
TEST_F(KilledRun, LeftOneTooMany) {
  const std::vector<std::string> arguments{"checkpoint.keep=1", "checkpoint.every=100"};
  test::write_bytes(checkpoints() / "latest", "step_00000002\n");
  auto from_older = arguments;
  from_older.emplace_back("checkpoint.restart=out/checkpoints/step_00000002");
  const auto refused = run(from_older);  // another training: it may touch neither of them
  EXPECT_EQ(refused.code, 2) << refused.output;
  EXPECT_TRUE(fs::exists(older()));
  EXPECT_TRUE(fs::exists(newest()));
  expect_whole(run(arguments), folder());
  EXPECT_FALSE(fs::exists(older()));
  EXPECT_EQ(test::read_bytes(checkpoints() / "latest"), "step_00000004\n");
  EXPECT_EQ(fs::path(test::newest_checkpoint(checkpoints())).filename(), "step_00000004");
}

/// The names that shard8 needs in checkpoint.dir are taken by others.
TEST_F(TakenName, ByAFile) {
  test::write_bytes(checkpoints() / "step_00000006.tmp", "mine");
  const auto before = test::digests_of(checkpoints());
  const auto end = run();
  expect_whole(end, folder());
  expect_says(end, {"no checkpoint was written", "out/checkpoints/step_00000006.tmp': is no folder",
                    "move it elsewhere, or set checkpoint.dir to another folder", "training goes on"});
  EXPECT_EQ(test::read_bytes(checkpoints() / "step_00000006.tmp"), "mine");
  const auto after = test::digests_of(checkpoints());
  for (const auto& [name, digest] : before) {
    if (name.find("step_00000004") != std::string::npos) {
      EXPECT_EQ(after.at(name), digest) << name;
    }
  }
  EXPECT_EQ(fs::path(test::newest_checkpoint(checkpoints())).filename(), "step_00000008");
}

/// The write of a run that stops fails: an earlier checkpoint is there, and the run goes on from that one.
TEST_F(TakenName, AtAStop) {
  test::write_bytes(checkpoints() / "step_00000006.tmp", "mine");
  const auto end = run({"run.stop_after=2"});
  EXPECT_EQ(end.code, 5) << end.output;
  expect_says(end, {"no checkpoint was written: ", "stopped by run.stop_after before step 6 of ",
                    "; no checkpoint was written here: run again to go on from that of step 4"});
  fs::remove(checkpoints() / "step_00000006.tmp");
  expect_whole(run(), folder());
}

/// `latest` is for people: without it a checkpoint is one all the same.
TEST_F(TakenName, LatestIsAFolder) {
  fs::remove(checkpoints() / "latest");
  fs::create_directory(checkpoints() / "latest");
  const auto end = run();
  expect_whole(end, folder());
  expect_says(end, {"out/checkpoints/latest"});
  EXPECT_EQ(fs::path(test::newest_checkpoint(checkpoints())).filename(), "step_00000008");
}

/// Somebody removes the lock, or the whole folder, while the run trains.
TEST_F(LostLock, TheLockIsRemoved) {
  fs::remove_all(folder() / "out");
  test::ProgramRun run(program({"run.steps=100000", "checkpoint.every=10"}));
  wait_until(run, "there is a checkpoint", [&] { return fs::exists(checkpoints() / "latest"); });
  fs::remove(checkpoints() / "lock");
  const auto newest = [&] { return checkpoint::read_manifest(test::newest_checkpoint(checkpoints())).step; };
  const std::int64_t last = newest();
  wait_until(run, "the run says so", [&] { return run.output().find("the lock is lost") != std::string::npos; });
  for (const pid_t rank : run.ranks()) ::kill(rank, SIGTERM);
  const auto end = run.wait();
  expect_says(end,
              {"out/checkpoints/lock': the lock is lost: the file is gone; this run writes no more checkpoints there",
               "training goes on"});
  EXPECT_NE(end.code, 0);
  EXPECT_LE(newest(), last + 10) << "at most the commit that was under way";
}

TEST_F(LostLock, TheFolderIsRemoved) {
  fs::remove_all(folder() / "out");
  test::ProgramRun run(program({"run.steps=100000", "checkpoint.every=10"}));
  wait_until(run, "there is a checkpoint", [&] { return fs::exists(checkpoints() / "latest"); });
  fs::rename(checkpoints(), folder() / "moved");
  wait_until(run, "the run says so", [&] { return run.output().find("training goes on") != std::string::npos; });
  const auto lines = [&] { return test::metrics_of(folder() / "out/metrics.jsonl").size(); };
  const auto before = lines();
  wait_until(run, "it goes on", [&] { return lines() > before + 20; });
  for (const pid_t rank : run.ranks()) ::kill(rank, SIGTERM);
  EXPECT_EQ(run.wait().code, 5);
  EXPECT_NE(test::newest_checkpoint(folder() / "moved"), "");
}

/// The folder of figures is lost, that of checkpoints is not: a stop keeps its exit code.
TEST_F(LostLock, OfOutputEndsNothing) {
  const fs::path out = folder() / "out";
  for (const bool whole : {false, true}) {
    fs::remove_all(out);
    fs::remove_all(folder() / "kept");
    test::ProgramRun run(program({"run.steps=100000", "checkpoint.every=10", "checkpoint.dir=kept"}));
    wait_until(run, "there is a checkpoint", [&] { return fs::exists(folder() / "kept/latest"); });
    fs::remove_all(whole ? out : out / "lock");
    wait_until(run, "the run says so", [&] { return run.output().find("the lock is lost") != std::string::npos; });
    for (const pid_t rank : run.ranks()) ::kill(rank, SIGTERM);
    const auto end = run.wait();
    EXPECT_EQ(end.code, 75) << end.output;
    expect_says(end, {"this run writes no more files there", "the training goes on",
                      "not written by this run: ", "stopped by SIGTERM"});
    EXPECT_FALSE(fs::exists(out / "summary.json"));
  }
}

TEST_F(TwoRuns, TheSecondIsRefused) {
  fs::remove_all(folder() / "out");
  test::ProgramRun first(program({"run.steps=100000", "checkpoint.every=10"}));
  wait_until(first, "there is a checkpoint", [&] { return fs::exists(checkpoints() / "latest"); });
  const auto ranks = first.ranks();
  ASSERT_EQ(ranks.size(), 2U);
  const fs::path elsewhere = folder() / "second";
  fs::create_directory(elsewhere);
  fs::copy_file(folder() / "deck.yaml", elsewhere / "deck.yaml");
  const auto second =
      test::run_program({.folder = elsewhere, .ranks = 2, .arguments = {"checkpoint.dir=../out/checkpoints"}});
  EXPECT_EQ(second.code, 4) << second.output;
  expect_says(second, {"out/checkpoints/lock': checkpoint.dir is in use by process ",
                       "wait for its end, or set "
                       "checkpoint.dir to another folder"});
  EXPECT_TRUE(second.output.find("process " + std::to_string(ranks[0]) + " on host") != std::string::npos ||
              second.output.find("process " + std::to_string(ranks[1]) + " on host") != std::string::npos)
      << second.output;
  const auto lines = [&] { return test::metrics_of(folder() / "out/metrics.jsonl").size(); };
  const auto before = lines();
  wait_until(first, "it goes on", [&] { return lines() > before + 20; });
  for (const pid_t rank : first.ranks()) ::kill(rank, SIGTERM);
  EXPECT_EQ(first.wait().code, 75);
  EXPECT_NE(test::newest_checkpoint(checkpoints()), "");
}

/// The system's clock goes back by a day when the checkpoint of step 5 is there (clock_preload.cpp). Checkpoints are
/// ordered by their serial numbers, and the end of the job is that of the steady clock.
TEST_F(Clock, GoesBack) {
  const char* const library = std::getenv("SHARD8_CLOCK_LIBRARY");
  if (library == nullptr || *library == '\0') GTEST_SKIP() << "a sanitizer wants to be the first library";
  auto options = program({"run.stop_after=3", "checkpoint.every=1"});
  options.before = {"env", std::string("LD_PRELOAD=") + library,
                    "SHARD8_CLOCK_FILE=" + (checkpoints() / "step_00000005").string(),
                    "SLURM_JOB_END_TIME=" + std::to_string(std::time(nullptr) + 3600)};
  const auto stopped = test::run_program(options);
  EXPECT_EQ(stopped.code, 75) << stopped.output;
  EXPECT_EQ(test::restarted_from(stopped.output), "out/checkpoints/step_00000004");
  EXPECT_EQ(fs::path(test::newest_checkpoint(checkpoints())).filename(), "step_00000007");
  options.arguments = {};
  const auto end = test::run_program(options);
  expect_whole(end, folder());
  EXPECT_EQ(test::restarted_from(end.output), "out/checkpoints/step_00000007");
}

}  // namespace
}  // namespace shard8
