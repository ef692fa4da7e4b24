// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// Every file in broken/ must fail with exactly the text of its .expect file. After a change of messages rewrite the
// files, and read each change:
//   SHARD8_REWRITE=1 build/cpu/tests/machine.file --gtest_filter='BrokenMachines.*'
#include <algorithm>
#include <cstdlib>
#include <vector>

#include "tests/machine/machines.hpp"

namespace shard8::machine {
namespace {

namespace fs = std::filesystem;

TEST(BrokenMachines, every_file_gives_its_message) {
  const AtRoot at_root;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator("tests/machine/broken"))
    if (entry.path().extension() == ".yaml") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  EXPECT_GE(files.size(), 18u);
  for (const fs::path& file : files) {
    const std::string expect = file.string() + ".expect";
    const std::string message = error_of(read_file(file), file.string()) + '\n';
    if (std::getenv("SHARD8_REWRITE") != nullptr) std::ofstream(expect, std::ios::binary) << message;
    ASSERT_TRUE(fs::exists(expect)) << expect;
    EXPECT_EQ(message, read_file(expect)) << file;
  }
}

TEST(BrokenMachines, files_that_cannot_be_read) {
  const AtRoot at_root;
  const auto of_file = [](const std::string& path) {
    try {
      read(path);
    } catch (const base::Error& error) {
      return std::to_string(base::to_int(error.code())) + " " + error.what();
    }
    return std::string();
  };
  EXPECT_EQ(of_file("inputs/machines"), "2 inputs/machines: error: this is a folder, a machine file is a file");
  EXPECT_EQ(of_file("inputs/no_such.yaml"),
            "2 inputs/no_such.yaml: error: cannot read the machine file: No such file or directory");
  EXPECT_EQ(error_of(std::string("machine:\0", 9)), "m.yaml: error: not a text file: byte 9 is zero");
  EXPECT_EQ(error_of(std::string(2000000, ' ')),
            "m.yaml: error: 2000000 bytes are too many for a machine file, at most 1048576");
}

TEST(BrokenMachines, a_deck_is_no_machine) {
  const AtRoot at_root;
  EXPECT_EQ(error_of(read_file("inputs/quickstart.yaml")),
            "m.yaml: error: this is a deck of a training, not a machine file; 'shard8 deck --machine' prints one to be "
            "filled in");
}

}  // namespace
}  // namespace shard8::machine
