// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <deque>

#include "checkpoint/directory.hpp"
#include "checkpoint/state_tensor.hpp"

namespace shard8::checkpoint {
namespace {

using io::Box;

/// Files of ranks, each with 10 rows of a tensor of 10 columns, and the order in which they were opened.
class Files {
 public:
  explicit Files(int ranks, bool one_missing = false) {
    for (int r = 0; r < ranks; ++r) {
      names_.push_back(rank_file(r));
      auto& boxes = boxes_.emplace_back();
      if (one_missing && r == 3) continue;
      io::ShardBox box;
      box.name = "w";
      box.content = "master";
      box.shape = shape();
      box.box = {10 * r, 10, 0, 10};
      boxes.push_back(box);
    }
  }
  std::vector<std::int64_t> shape() const { return {10 * static_cast<std::int64_t>(names_.size()), 10}; }
  BoxIndex index(LikelyRanks likely = {}) {
    return {names_, static_cast<std::int64_t>(names_.size()),
            [this](std::size_t f) -> const std::vector<io::ShardBox>& {
              opened.push_back(f);
              return boxes_[f];
            },
            std::move(likely)};
  }
  std::vector<std::size_t> opened;

 private:
  std::vector<std::string> names_;
  std::deque<std::vector<io::ShardBox>> boxes_;
};

std::vector<std::size_t> files_of(const std::vector<BoxIndex::Place>& places) {
  std::vector<std::size_t> files;
  for (const auto& place : places) files.push_back(place.file);
  return files;
}

LikelyRanks always(std::vector<std::int64_t> ranks) {
  return [ranks = std::move(ranks)](const std::string&, const std::string&, const std::vector<std::int64_t>&,
                                    const Box&) { return ranks; };
}

TEST(BoxIndex, OpensOnlyTheFilesOfLikelyRanks) {
  Files files(100);
  BoxIndex index = files.index(always({42, 43}));
  EXPECT_EQ(files_of(index.find("w", "master", files.shape(), {425, 10, 0, 10})), (std::vector<std::size_t>{42, 43}));
  EXPECT_EQ(files.opened, (std::vector<std::size_t>{42, 43}));
  index.find("w", "master", files.shape(), {425, 5, 3, 2});
  EXPECT_EQ(index.opened(), 2U);
}

TEST(BoxIndex, LooksAtTheNeighboursOfAWrongGuess) {
  Files files(100);
  BoxIndex index = files.index(always({50}));
  EXPECT_EQ(files_of(index.find("w", "master", files.shape(), {475, 10, 0, 10})), (std::vector<std::size_t>{47, 48}));
  EXPECT_LE(files.opened.size(), 7U);
}

TEST(BoxIndex, SearchesToTheFirstAndTheLastFile) {
  for (const std::int64_t row : {0, 70}) {
    Files files(8);
    BoxIndex index = files.index(always({row == 0 ? 6 : 1}));
    EXPECT_EQ(files_of(index.find("w", "master", files.shape(), {row, 10, 0, 10})),
              (std::vector<std::size_t>{static_cast<std::size_t>(row) / 10}));
  }
}

TEST(BoxIndex, FindsEverythingWithoutAGuess) {
  Files files(20);
  BoxIndex index = files.index();
  EXPECT_EQ(files_of(index.find("w", "master", files.shape(), {195, 5, 0, 10})), (std::vector<std::size_t>{19}));
  EXPECT_EQ(files.opened.size(), 20U);
}

TEST(BoxIndex, OpensEveryFileOnceWhereElementsAreMissing) {
  Files files(10, true);
  BoxIndex index = files.index(always({3, 3, 99, -1}));
  EXPECT_EQ(files_of(index.find("w", "master", files.shape(), {25, 20, 0, 10})), (std::vector<std::size_t>{2, 4}));
  EXPECT_EQ(files.opened.size(), 10U);
  EXPECT_TRUE(index.find("v", "master", {4, 4}, {0, 4, 0, 4}).empty());
  EXPECT_EQ(files.opened.size(), 10U);
}

TEST(BoxIndex, ListsTheBoxesOfAllFiles) {
  Files files(5);
  BoxIndex index = files.index(always({4}));
  index.find("w", "master", files.shape(), {45, 1, 0, 1});
  index.open_all();
  EXPECT_EQ(files_of(index.boxes_of("w", "master")), (std::vector<std::size_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(files.opened.size(), 5U);
}

}  // namespace
}  // namespace shard8::checkpoint
