// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// The keys of checkpoints.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "deck/layout.hpp"
#include "deck/load.hpp"
#include "tests/deck/decks.hpp"

namespace shard8::deck {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

LoadResult deck_with(const std::vector<std::string>& overrides) { return load_text(kLeastDeck, "a.yaml", overrides); }

std::string error_with(const std::vector<std::string>& overrides) {
  try {
    deck_with(overrides);
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::ExitCode::deck);
    return error.what();
  }
  return "no error";
}

/// An empty folder with a file in it, the working directory while this lives.
class InFolder {
 public:
  InFolder()
      : before_(fs::current_path()), path_(fs::temp_directory_path() / ("shard8_keys_" + std::to_string(::getpid()))) {
    fs::create_directories(path_ / "folder");
    std::ofstream(path_ / "folder/file") << "text";
    fs::current_path(path_);
  }
  ~InFolder() {
    fs::current_path(before_);
    fs::remove_all(path_);
  }
  InFolder(const InFolder&) = delete;
  InFolder& operator=(const InFolder&) = delete;

 private:
  fs::path before_, path_;
};

TEST(Checkpoint, off_by_default) {
  const LoadResult deck = deck_with({});
  const CheckpointConfig& c = deck.config.checkpoint;
  EXPECT_EQ(c.dir, "");
  EXPECT_EQ(c.every, 0);
  EXPECT_EQ(c.keep, 2);
  EXPECT_TRUE(c.async);
  EXPECT_EQ(c.files, CheckpointFiles::rank);
  EXPECT_EQ(c.restart, "auto");
  EXPECT_FALSE(c.restarts_from_path());
  EXPECT_FALSE(c.allow_changes);
  EXPECT_THAT(describe(deck.config), Not(HasSubstr("checkpoint")));
}

TEST(Checkpoint, every_key) {
  const InFolder in_folder;
  const LoadResult deck =
      deck_with({"checkpoint.dir=saved", "checkpoint.every=10", "checkpoint.keep=5", "checkpoint.async=f",
                 "checkpoint.files=node", "checkpoint.restart=folder", "checkpoint.allow_changes=true"});
  const CheckpointConfig& c = deck.config.checkpoint;
  EXPECT_EQ(c.dir, "saved");
  EXPECT_EQ(c.every, 10);
  EXPECT_EQ(c.keep, 5);
  EXPECT_FALSE(c.async);
  EXPECT_EQ(c.files, CheckpointFiles::node);
  EXPECT_EQ(c.restart, "folder");
  EXPECT_TRUE(c.restarts_from_path());
  EXPECT_TRUE(c.allow_changes);
  EXPECT_THAT(deck.warnings, IsEmpty());
  EXPECT_THAT(describe(deck.config), HasSubstr("checkpoint every 10 steps in saved, a file for each node, training "
                                               "waits; 5 kept; goes on from folder\n"));
  EXPECT_EQ(to_yaml(load_text(to_yaml(deck.config), "b.yaml").config), to_yaml(deck.config));
  EXPECT_EQ(to_yaml(load_text(to_namelist(deck.config), "b.nml").config), to_yaml(deck.config));
}

TEST(Checkpoint, default_folder) {
  EXPECT_EQ(deck_with({"checkpoint.every=1"}).config.checkpoint.dir, "out/checkpoints");
  EXPECT_EQ(deck_with({"checkpoint.every=1", "output.dir=a/b"}).config.checkpoint.dir, "a/b/checkpoints");
  EXPECT_EQ(deck_with({"checkpoint.every=1", "checkpoint.dir="}).config.checkpoint.dir, "out/checkpoints");
  EXPECT_EQ(deck_with({"checkpoint.every=0"}).config.checkpoint.dir, "");
  EXPECT_EQ(deck_with({"checkpoint.dir=x"}).config.checkpoint.dir, "x");
  EXPECT_THAT(describe(deck_with({"checkpoint.dir=x"}).config), HasSubstr("checkpoint at a stop only in x, "));
}

TEST(Checkpoint, values_out_of_bounds) {
  EXPECT_THAT(error_with({"checkpoint.keep=0"}), HasSubstr("expected a positive integer"));
  EXPECT_THAT(error_with({"checkpoint.every=-1"}), HasSubstr("expected an integer >= 0"));
  EXPECT_THAT(error_with({"checkpoint.files=ranks"}), HasSubstr("did you mean 'rank'"));
  EXPECT_THAT(error_with({"checkpoint.restart="}), HasSubstr("a text, not empty"));
}

TEST(Checkpoint, folders) {
  const InFolder in_folder;
  EXPECT_THAT(error_with({"checkpoint.restart=missing"}), HasSubstr("checkpoint.restart: 'missing' does not exist"));
  EXPECT_THAT(error_with({"checkpoint.restart=folder/file"}),
              HasSubstr("checkpoint.restart: 'folder/file' is not a folder"));
  EXPECT_THAT(error_with({"checkpoint.dir=folder/file"}), HasSubstr("checkpoint.dir = folder/file is not a folder"));
  EXPECT_THAT(error_with({"checkpoint.dir=folder", "data.kind=bytes", "data.path=folder"}),
              HasSubstr("checkpoint.dir = folder is the folder of data.path"));
  EXPECT_THAT(error_with({"checkpoint.dir=./out", "output.summary=latest"}),
              HasSubstr("output.summary = latest is a name that checkpoints use"));
  EXPECT_EQ(deck_with({"checkpoint.dir=out"}).config.checkpoint.dir, "out");
}

TEST(Checkpoint, keys_without_effect) {
  for (const char* const key : {"checkpoint.keep=3", "checkpoint.async=f", "checkpoint.files=node"}) {
    const auto warnings = deck_with({key}).warnings;
    ASSERT_THAT(warnings, SizeIs(1)) << key;
    EXPECT_THAT(warnings[0], HasSubstr("nothing reads it with checkpoint.dir = ''"));
    EXPECT_THAT(deck_with({key, "checkpoint.dir=x"}).warnings, IsEmpty());
  }
  EXPECT_THAT(deck_with({"checkpoint.allow_changes=t"}).warnings, IsEmpty());
  EXPECT_THAT(deck_with({"checkpoint.allow_changes=t", "checkpoint.restart=none"}).warnings, SizeIs(1));
}

}  // namespace
}  // namespace shard8::deck
