// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "profile/output_file.hpp"

#include <gtest/gtest.h>

#include <unistd.h>

#include <fstream>

#include "base/error.hpp"

namespace shard8::profile {
namespace {

namespace fs = std::filesystem;

/// A folder that is removed with its files.
struct Folder {
  Folder() { fs::create_directories(path); }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  fs::path path = fs::temp_directory_path() / ("shard8_distinct_files." + std::to_string(::getpid()));
};

std::string refusal(const std::vector<NamedFile>& written, const std::vector<NamedFile>& read) {
  try {
    require_distinct("shard8 it", written, read);
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::ExitCode::deck);
    return error.what();
  }
  return "";
}

TEST(DistinctFiles, WhatIsReadIsNotReplaced) {
  const Folder folder;
  const fs::path& path = folder.path;
  std::ofstream(path / "deck.yaml") << "model:";
  fs::create_symlink("deck.yaml", path / "link.yaml");
  fs::create_directory_symlink(".", path / "here");
  for (const char* name : {"deck.yaml", "link.yaml", "here/deck.yaml", "nothere/../deck.yaml"}) {
    const std::string written = (path / name).string();
    EXPECT_EQ(refusal({{"--json", written}}, {{"the deck", path / "deck.yaml"}}),
              "shard8 it: --json '" + written + "' would replace the deck, which is read: give --json another name");
  }
  EXPECT_EQ(refusal({{"--json", path / "other"}}, {{"the deck", path / "deck.yaml"}}), "");
}

TEST(DistinctFiles, TwoThatAreWrittenAreTwo) {
  const Folder folder;
  const fs::path& path = folder.path;
  EXPECT_EQ(refusal({{"--csv", path / "new"}, {"--json", path / "./new"}}, {}),
            "shard8 it: --csv and --json are one file, '" + (path / "./new").string() + "'; give them different names");
  EXPECT_EQ(refusal({{"--csv", path / "new"}, {"--json", path / "newer"}}, {}), "");
}

}  // namespace
}  // namespace shard8::profile
