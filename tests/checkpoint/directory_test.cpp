// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/directory.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <thread>

#include "checkpoint/inspect.hpp"
#include "tests/checkpoint/checkpoints.hpp"
#include "tests/checkpoint/system_calls.hpp"

namespace shard8 {
namespace {

namespace fs = std::filesystem;
using base::ExitCode;
using checkpoint::Directory;
using checkpoint::names_in;
using test::expect_error;
using test::save_step;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::int64_t> usable_steps(const Directory& directory) {
  std::vector<std::int64_t> steps;
  for (const auto& one : directory.scan().usable) steps.push_back(one.step);
  return steps;
}

TEST(Names, OfSteps) {
  EXPECT_EQ(checkpoint::step_name(1200), "step_00001200");
  EXPECT_EQ(checkpoint::step_name(2147483647), "step_2147483647");
  for (const std::int64_t step : {0, 1, 99999999, 100000000, 2147483647}) {
    EXPECT_EQ(checkpoint::step_of(checkpoint::step_name(step)), step);
  }
  for (const char* const name : {"step_", "step_1", "step_000000001", "step_2147483648", "step_99999999999999999999",
                                 "step_0000000a", "step_-0000001", "step_+0000001", "step_00000001 ",
                                 "step_00000001.tmp", "step_00000001.old", "Step_00000001", " step_00000001", ""}) {
    EXPECT_EQ(checkpoint::step_of(name), std::nullopt) << name;
  }
  EXPECT_EQ(checkpoint::rank_file(3), "shard_r0003.h5");
  EXPECT_EQ(checkpoint::rank_file(12345), "shard_r12345.h5");
  EXPECT_EQ(checkpoint::node_file(1), "node_n0001.h5");
}

TEST(Names, OfFilesInACheckpoint) {
  for (const char* const name :
       {"manifest.json", "manifest.json.tmp", "shard_r0000.h5", "shard_r12345.h5", "node_n0001.h5"})
    EXPECT_TRUE(checkpoint::is_file_of_checkpoint(name)) << name;
  for (const char* const name :
       {"shard_r.h5", "shard_r1.h5.bak", "shard_rx.h5", "notes.txt", "manifest.json.old", "latest", ""})
    EXPECT_FALSE(checkpoint::is_file_of_checkpoint(name)) << name;
}

TEST(Directory, IsEmptyBeforeItIsThere) {
  const test::TempFolder folder;
  const Directory directory(folder / "a/b/c");
  EXPECT_THAT(directory.steps(), IsEmpty());
  EXPECT_TRUE(directory.scan().empty());
  EXPECT_EQ(directory.latest(), std::nullopt);
  EXPECT_EQ(directory.next_serial(), 1);
  directory.make();
  directory.make();
  EXPECT_TRUE(fs::is_directory(folder / "a/b/c"));
  save_step(directory, 5);
  EXPECT_THAT(usable_steps(directory), ElementsAre(5));
}

TEST(Directory, Commits) {
  const test::TempFolder folder;
  const Directory directory(folder.path());
  save_step(directory, 10, "ten");
  save_step(directory, 200000000, "more digits");
  EXPECT_THAT(directory.steps(), ElementsAre(10, 200000000));
  EXPECT_EQ(directory.latest(), 200000000);
  EXPECT_EQ(directory.open(10).step, 10);
  EXPECT_EQ(directory.open(10).serial, 1);
  EXPECT_EQ(directory.next_serial(), 3);
  EXPECT_THAT(names_in(folder.path()), ElementsAre("latest", "step_00000010", "step_200000000"));
  EXPECT_THAT(names_in(directory.folder_of(10)), ElementsAre("manifest.json", "shard_r0000.h5"));
  EXPECT_EQ(test::read_bytes(folder / "latest"), "step_200000000\n");
}

TEST(Directory, CommitsOverACheckpointOfTheSameStep) {
  const test::TempFolder folder;
  const Directory directory(folder.path());
  save_step(directory, 10, "first");
  save_step(directory, 10, "second");
  EXPECT_THAT(names_in(folder.path()), ElementsAre("latest", "step_00000010"));
  EXPECT_EQ(test::read_bytes(directory.folder_of(10) + "/shard_r0000.h5"), "second");
  EXPECT_EQ(directory.open(10).serial, 2);
}

TEST(Directory, BeginsInAnEmptyFolder) {
  const test::TempFolder folder;
  const Directory directory(folder.path());
  test::fill_step(directory.begin(7), 7, 1, "never committed");
  EXPECT_THAT(names_in(directory.begin(7)), IsEmpty());
  EXPECT_TRUE(directory.scan().empty());
  directory.abandon(7);
  directory.abandon(7);
  EXPECT_THAT(names_in(folder.path()), IsEmpty());
}

TEST(Directory, SeesTheFilesOfOthersBeforeACommit) {
  const test::TempFolder folder;
  const Directory directory(folder.path());
  test::write_bytes(directory.begin(7) + "/shard_r0000.h5", "0123");
  directory.require_file(7, "shard_r0000.h5", 4);
  directory.require_file(7, "shard_r0000.h5", {});
  const auto refused = [&](const std::string& name, std::optional<std::uint64_t> length, const std::string& why) {
    expect_error([&] { directory.require_file(7, name, length); }, ExitCode::environment,
                 {"checkpoint.dir is not shared: a rank wrote", name + "', and for this rank it " + why,
                  "set checkpoint.dir to a folder that"});
  };
  refused("shard_r0000.h5", 5, "has 4 bytes; its manifest says 5");
  refused("shard_r0001.h5", 4, "is missing");
  refused("shard_r0001.h5", {}, "is missing");
}

TEST(Directory, SaysWhyACheckpointIsUnusable) {
  const test::TempFolder folder;
  const Directory directory(folder.path());
  for (const std::int64_t step : {1, 2, 3, 4, 5, 6}) save_step(directory, step, "0123456789");
  fs::remove(directory.folder_of(1) + "/shard_r0000.h5");
  test::write_bytes(directory.folder_of(2) + "/shard_r0000.h5", "012345678");
  test::write_bytes(directory.folder_of(3) + "/shard_r0000.h5", "0123456789+");
  fs::remove(directory.folder_of(4) + "/manifest.json");
  fs::rename(directory.folder_of(6), directory.folder_of(8));
  const auto scan = directory.scan();
  ASSERT_EQ(scan.usable.size(), 1U);
  EXPECT_EQ(scan.usable[0].step, 5);
  EXPECT_EQ(scan.usable[0].run, "run 1");
  ASSERT_EQ(scan.unusable.size(), 5U);
  const std::pair<std::int64_t, std::string> why[] = {
      {8, "'" + directory.folder_of(8) + "': its manifest is of step 6: the folder was renamed"},
      {4, "manifest.json': cannot open for reading: No such file"},
      {3, "has 11 bytes; its manifest says 10"},
      {2, "shard_r0000.h5': has 9 bytes; its manifest says 10; restart from another checkpoint"},
      {1, "shard_r0000.h5': is missing"}};
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(scan.unusable[i].step, why[i].first);
    EXPECT_THAT(scan.unusable[i].why, HasSubstr(why[i].second));
    expect_error([&] { directory.open(why[i].first); }, ExitCode::checkpoint, {why[i].second});
  }
}

/// A run that was restarted from an earlier step goes on from its own checkpoints.
/// A look at a folder meets a run that removes checkpoints: what is gone meanwhile is not damaged.
TEST(Directory, ARunMayRemoveCheckpointsMeanwhile) {
  constexpr int kSteps = 30;
  const test::TempFolder folder;
  const Directory directory(folder.path());
  for (int step = 0; step < kSteps; ++step) save_step(directory, step);
  std::atomic<bool> done = false;
  std::thread run([&] {
    for (int step = 0; step < kSteps; ++step) {
      fs::rename(directory.folder_of(step), directory.folder_of(step) + ".old");
      fs::remove_all(directory.folder_of(step) + ".old");
    }
    done = true;
  });
  std::size_t most = 0;
  while (!done) {
    const auto scan = directory.scan();
    EXPECT_THAT(scan.unusable, IsEmpty()) << scan.unusable.front().why;
    EXPECT_THAT(checkpoint::list_text(directory), testing::Not(HasSubstr("not usable")));
    most = std::max(most, scan.usable.size());
    if (testing::Test::HasFailure()) break;
  }
  run.join();
  EXPECT_GT(most, 0u);
}

TEST(Directory, TheNewestIsTheLastWritten) {
  const test::TempFolder folder;
  const Directory directory(folder.path());
  for (const std::int64_t step : {100, 200, 300, 150}) save_step(directory, step);
  EXPECT_THAT(usable_steps(directory), ElementsAre(150, 300, 200, 100));
}

TEST(Directory, ClocksThatGoBackChangeNothing) {
  const test::TempFolder folder;
  const Directory directory(folder.path());
  for (const std::int64_t step : {1, 2, 3}) {
    save_step(directory, step);
    const auto then = fs::file_time_type::clock::now() - std::chrono::hours(step * 1000);
    fs::last_write_time(directory.folder_of(step) + "/manifest.json", then);
    fs::last_write_time(directory.folder_of(step), then);
  }
  EXPECT_THAT(usable_steps(directory), ElementsAre(3, 2, 1));
  EXPECT_THAT(directory.retain(2, "run 1").removed, ElementsAre("step_00000001"));
}

TEST(Directory, LatestMayBeAnything) {
  const test::TempFolder folder;
  const Directory directory(folder.path());
  for (const std::string& text : {std::string("step_00000012"), std::string("step_00000012\n")}) {
    test::write_bytes(folder / "latest", text);
    EXPECT_EQ(directory.latest(), 12);
  }
  for (const std::string& text :
       {std::string(), std::string("\n"), std::string("step_12"), std::string(1 << 20, 'x')}) {
    test::write_bytes(folder / "latest", text);
    EXPECT_EQ(directory.latest(), std::nullopt);
  }
  fs::remove(folder / "latest");
  fs::create_directory(folder / "latest");
  EXPECT_EQ(directory.latest(), std::nullopt);
}

TEST(Directory, SaysWhyItCannotWrite) {
  const test::TempFolder folder;
  const Directory directory(folder / "d");
  const std::vector<std::string> remedy = {"set checkpoint.dir to a folder that can be written to and has room"};
  test::write_bytes(folder / "file", "");
  expect_error([&] { Directory(folder / "file").make(); }, ExitCode::environment,
               {"file': Not a directory", remedy[0]});
  fs::create_symlink("scratch/gone", folder / "link");
  expect_error([&] { Directory(folder / "link").make(); }, ExitCode::environment,
               {"link': is a link to 'scratch/gone', which is not there"});
  expect_error([&] { Directory(folder / "file/x").make(); }, ExitCode::environment, {"Not a directory", remedy[0]});
  expect_error([&] { Directory(folder / "file").steps(); }, ExitCode::checkpoint, {"cannot list", "Not a directory"});
  directory.make();
  {
    const test::FailingCall read_only("mkdir", "step_00000001.tmp", EROFS);
    expect_error([&] { directory.begin(1); }, ExitCode::environment,
                 {"step_00000001.tmp': cannot make the folder: Read-only file system", remedy[0]});
  }
  save_step(directory, 1, "good");
  for (const auto& [call, path, part] : {std::tuple{"write", "manifest.json.tmp", "cannot write"},
                                         std::tuple{"fsync", "manifest.json.tmp", "cannot fsync"},
                                         std::tuple{"rename", "step_00000002", "cannot rename it to"}}) {
    {
      const test::FailingCall full(call, path, ENOSPC);
      expect_error([&] { save_step(directory, 2, "new"); }, ExitCode::environment,
                   {path, part, "No space left on device", "has room"});
    }
    directory.abandon(2);
    EXPECT_EQ(directory.open(1).step, 1);
    EXPECT_FALSE(fs::exists(directory.path() + "/step_00000002.tmp"));
  }
  EXPECT_EQ(directory.latest(), 1);
}

/// `latest` is for people. A checkpoint is one without it, too.
TEST(Directory, LatestThatCannotBeWrittenIsNoError) {
  const test::TempFolder folder;
  const Directory directory(folder.path());
  save_step(directory, 1);
  test::fill_step(directory.begin(2), 2, 2, "new");
  const test::FailingCall full("write", "latest.tmp", ENOSPC);
  const auto done = directory.commit(2);
  ASSERT_EQ(done.trouble.size(), 1U);
  EXPECT_THAT(done.trouble[0], HasSubstr("latest.tmp': cannot write: No space left on device"));
  EXPECT_THAT(usable_steps(directory), ElementsAre(2, 1));
  EXPECT_EQ(directory.latest(), 1);
}

/// If the new one cannot take the place of the old one, the old one goes back to it.
TEST(Directory, AFailedReplacementLeavesTheOldOne) {
  const test::TempFolder folder;
  const Directory directory(folder.path());
  save_step(directory, 1, "old");
  test::fill_step(directory.begin(1), 1, 2, "new");
  fs::rename(folder / "step_00000001.tmp", folder / "elsewhere");
  expect_error([&] { directory.commit(1); }, ExitCode::environment, {"step_00000001.tmp'"});
  EXPECT_EQ(test::read_bytes(directory.folder_of(1) + "/shard_r0000.h5"), "old");
  fs::remove_all(folder / "elsewhere");
  fs::create_directory(folder / "step_00000001.old");
  test::write_bytes(folder / "step_00000001.old/mine", "");
  test::fill_step(directory.begin(1), 1, 2, "new");
  expect_error([&] { directory.commit(1); }, ExitCode::environment,
               {"step_00000001.old': holds 'mine', which is no file of a checkpoint"});
  EXPECT_EQ(test::read_bytes(directory.folder_of(1) + "/shard_r0000.h5"), "old");
}

TEST(Directory, ANameTakenByAFile) {
  const test::TempFolder folder;
  const Directory directory(folder.path());
  for (const char* const name : {"step_00000001", "step_00000001.tmp", "step_00000001.old"}) {
    test::write_bytes(folder / name, "mine");
    expect_error([&] { directory.begin(1); }, ExitCode::environment, {name, "is no folder", "move it elsewhere"});
    EXPECT_EQ(test::read_bytes(folder / name), "mine");
    fs::remove(folder / name);
  }
}

class Retention : public testing::TestWithParam<int> {};

TEST_P(Retention, KeepsTheLastOnes) {
  const int keep = GetParam();
  const test::TempFolder folder;
  const Directory directory(folder.path());
  for (int step = 1; step <= 6; ++step) {
    save_step(directory, step);
    directory.retain(keep, "run 1");
    const auto usable = usable_steps(directory);
    ASSERT_EQ(usable.size(), static_cast<std::size_t>(std::min(step, keep)));
    for (std::size_t i = 0; i < usable.size(); ++i) EXPECT_EQ(usable[i], step - static_cast<int>(i));
    EXPECT_EQ(names_in(folder.path()).size(), usable.size() + 1);  // and `latest`
  }
}

INSTANTIATE_TEST_SUITE_P(Keep, Retention, testing::Range(1, 8));

TEST(Retention, KeepsWhatLatestNames) {
  const test::TempFolder folder;
  const Directory directory(folder.path());
  for (const std::int64_t step : {1, 2, 3, 4}) save_step(directory, step);
  test::write_bytes(folder / "latest", "step_00000002\n");
  EXPECT_THAT(directory.retain(1, "run 1").removed, ElementsAre("step_00000003", "step_00000001"));
  EXPECT_THAT(usable_steps(directory), ElementsAre(4, 2));
  EXPECT_EQ(directory.latest(), 2);
}

TEST(Retention, OfOneRun) {
  const test::TempFolder folder;
  const Directory directory(folder.path());
  save_step(directory, 1, "data", "run 0");
  for (const std::int64_t step : {2, 3, 4}) save_step(directory, step);
  directory.retain(1, "run 1");
  EXPECT_THAT(usable_steps(directory), ElementsAre(4, 1));
}

/// A damaged checkpoint takes the place of none that is good.
TEST(Retention, DoesNotCountDamagedOnes) {
  const test::TempFolder folder;
  const Directory directory(folder.path());
  for (const std::int64_t step : {1, 2, 3, 4}) save_step(directory, step);
  for (const std::int64_t step : {2, 4}) fs::remove(directory.folder_of(step) + "/shard_r0000.h5");
  EXPECT_THAT(directory.retain(2, "run 1").removed, IsEmpty());
  EXPECT_THAT(usable_steps(directory), ElementsAre(3, 1));
  EXPECT_THAT(directory.retain(1, "run 1").removed, ElementsAre("step_00000001"));
  EXPECT_THAT(directory.steps(), ElementsAre(2, 3, 4));
}

/// Everything else in the folder, and in the folders of checkpoints, stays as it is.
TEST(Retention, TouchesNothingElse) {
  const test::TempFolder folder;
  const Directory directory(folder.path());
  const test::TempFolder elsewhere;
  save_step(Directory(elsewhere.path()), 3);
  const std::vector<std::string> foreign = {
      "step_1", "step_000000001", "step_00000001.bak", "step_00000001.tmp2", "step_00000001old", "latest.txt",
      "x.tmp",  "x.old",          "step_0000000x.old"};
  for (const std::string& name : foreign) {
    fs::create_directory(folder / name);
    test::write_bytes(folder / (name + "/shard_r0000.h5"), "mine");
  }
  test::write_bytes(folder / "step_00000099", "a file");
  test::write_bytes(folder / "step_00000098.tmp", "a file");
  test::write_bytes(folder / "step_00000097.old", "a file");
  for (const std::int64_t step : {1, 2}) save_step(directory, step);
  fs::create_directory_symlink(elsewhere / "step_00000003", folder / "step_00000003");
  for (const std::int64_t step : {4, 5}) save_step(directory, step);
  test::write_bytes(directory.folder_of(2) + "/notes.txt", "mine");
  fs::create_directory(directory.folder_of(4) + "/shard_r0001.h5");

  auto done = directory.retain(1, "run 1");
  EXPECT_THAT(done.removed, ElementsAre("step_00000004", "step_00000002", "step_00000001"));
  ASSERT_EQ(done.trouble.size(), 2U);
  EXPECT_THAT(done.trouble[0],
              HasSubstr("step_00000004.old': holds 'shard_r0001.h5', which is no file of a checkpoint"));
  EXPECT_THAT(done.trouble[1], HasSubstr("step_00000002.old': holds 'notes.txt'"));
  EXPECT_EQ(test::read_bytes(folder / "step_00000002.old/notes.txt"), "mine");
  EXPECT_THAT(usable_steps(directory), ElementsAre(5, 3));
  done = directory.recover();
  EXPECT_THAT(done.removed, IsEmpty());
  EXPECT_EQ(done.trouble.size(), 2U);

  for (const std::string& name : foreign) EXPECT_EQ(test::read_bytes(folder / (name + "/shard_r0000.h5")), "mine");
  EXPECT_EQ(test::read_bytes(folder / "step_00000099"), "a file");
  EXPECT_EQ(test::read_bytes(folder / "step_00000098.tmp"), "a file");
  EXPECT_EQ(test::read_bytes(folder / "step_00000097.old"), "a file");
  EXPECT_THAT(names_in(elsewhere / "step_00000003"), ElementsAre("manifest.json", "shard_r0000.h5"));
  save_step(directory, 3, "in place of the link");
  EXPECT_THAT(names_in(elsewhere / "step_00000003"), ElementsAre("manifest.json", "shard_r0000.h5"));
  EXPECT_FALSE(fs::is_symlink(directory.folder_of(3)));
}

TEST(Recovery, RemovesWhatIsLeft) {
  const test::TempFolder folder;
  const Directory directory(folder.path());
  save_step(directory, 1);
  test::fill_step(directory.begin(2), 2, 2, "complete, but never committed");
  test::write_bytes(directory.begin(3) + "/shard_r0000.h5", "cut");
  fs::create_directory(folder / "step_00000001.old");
  fs::create_directory(folder / "step_00000009.old");
  test::write_bytes(folder / "step_00000009.old/shard_r0000.h5", "half removed");
  test::write_bytes(folder / "latest.tmp", "step_0000");
  const auto done = directory.recover();
  EXPECT_THAT(done.removed, ElementsAre("step_00000001.old", "step_00000009.old", "step_00000002.tmp",
                                        "step_00000003.tmp", "latest.tmp"));
  EXPECT_THAT(done.trouble, IsEmpty());
  EXPECT_THAT(names_in(folder.path()), ElementsAre("latest", "step_00000001"));
}

/// Killed between the two renames of a commit.
TEST(Recovery, OfAReplacement) {
  const test::TempFolder folder;
  const Directory directory(folder.path());
  save_step(directory, 1, "old");
  test::fill_step(directory.begin(1), 1, 2, "new");
  fs::rename(folder / "step_00000001", folder / "step_00000001.old");
  EXPECT_THAT(directory.recover().renamed, ElementsAre("step_00000001.tmp to step_00000001"));
  EXPECT_EQ(test::read_bytes(folder / "step_00000001/shard_r0000.h5"), "new");

  fs::rename(folder / "step_00000001", folder / "step_00000001.old");
  test::write_bytes(directory.begin(1) + "/shard_r0000.h5", "newer, without a manifest");
  EXPECT_THAT(directory.recover().renamed, ElementsAre("step_00000001.old to step_00000001"));
  EXPECT_EQ(test::read_bytes(folder / "step_00000001/shard_r0000.h5"), "new");
  EXPECT_THAT(names_in(folder.path()), ElementsAre("latest", "step_00000001"));
}

/// Its manifest is of another step.
TEST(Recovery, OfAReplacementThatIsAnotherStep) {
  const test::TempFolder folder;
  const Directory directory(folder.path());
  save_step(directory, 1, "old");
  test::fill_step(directory.begin(1), 2, 2, "of step 2");
  fs::rename(folder / "step_00000001", folder / "step_00000001.old");
  EXPECT_THAT(directory.recover().renamed, ElementsAre("step_00000001.old to step_00000001"));
  EXPECT_EQ(test::read_bytes(folder / "step_00000001/shard_r0000.h5"), "old");
}

TEST(Recovery, KeepsTheOnlyGoodOne) {
  const test::TempFolder folder;
  const Directory directory(folder.path());
  save_step(directory, 1, "good");
  fs::rename(folder / "step_00000001", folder / "step_00000001.old");
  fs::create_directory(folder / "step_00000001");
  const auto done = directory.recover();
  ASSERT_EQ(done.trouble.size(), 1U);
  EXPECT_THAT(done.trouble[0], HasSubstr("neither is touched"));
  EXPECT_TRUE(fs::exists(folder / "step_00000001.old/manifest.json"));
}

}  // namespace
}  // namespace shard8
