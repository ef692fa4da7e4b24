// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "base/log.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

namespace shard8::base {
namespace {

class File {
 public:
  File() : file_(std::tmpfile()) {}
  ~File() { std::fclose(file_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  std::FILE* get() const { return file_; }

  std::string text() const {
    std::rewind(file_);
    std::string all(4096, '\0');
    all.resize(std::fread(all.data(), 1, all.size(), file_));
    return all;
  }

 private:
  std::FILE* file_;
};

TEST(Log, only_the_speaker_informs) {
  File out, err;
  Logger(0, 4, 0, out.get(), err.get()).info("step {}", 7);
  Logger(2, 4, 0, out.get(), err.get()).info("not seen");
  EXPECT_EQ(out.text(), "step 7\n");
  EXPECT_EQ(err.text(), "");
}

TEST(Log, every_rank_warns_with_its_number) {
  File out, err;
  Logger(2, 4, 0, out.get(), err.get()).warn("slow {}", "disk");
  Logger(3, 4, 0, out.get(), err.get()).error("gone");
  EXPECT_EQ(out.text(), "");
  EXPECT_EQ(err.text(), "shard8: rank 2: warning: slow disk\nshard8: rank 3: error: gone\n");
}

TEST(Log, a_single_rank_needs_no_number) {
  File out, err;
  Logger(0, 1, 0, out.get(), err.get()).error("gone");
  EXPECT_EQ(err.text(), "shard8: error: gone\n");
}

}  // namespace
}  // namespace shard8::base
