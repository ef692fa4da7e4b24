// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

// Every file in broken/ must fail with exactly the text of its .expect file. After a change of messages rewrite the
// files, and read each change:
//   SHARD8_REWRITE=1 build/cpu/tests/machine.file --gtest_filter='BrokenMachines.*'

#include <fmt/format.h>

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

// The limits of each contradiction, from both sides.

namespace shard8::machine {
namespace {

const std::string kHead =
    "machine: {format: 1, name: x, kind: cuda}\n"
    "sources: {a: 'chosen: x'}\n"
    "node: {source: a, devices: 8}\n"
    "device: {source: a, peak_bf16: 1000, peak_fp8: 2000, peak_fp32: 50, bandwidth: 3000}\n";

std::string with(const std::string& group, const std::string& row) {
  return error_of(kHead + group + ":\n  source: a\n  " + row + "\n");
}

bool says(const std::string& error, const std::string& text) { return error.find(text) != std::string::npos; }

// 2·10000·10000·5000 = 1e12 operations: 1000 us at 1000 TFLOP/s.
TEST(Contradictions, products_faster_than_the_peak) {
  EXPECT_EQ(with("products", "fprop bf16 bf16 bf16 10000x10000x5000: 953"), "");
  EXPECT_TRUE(says(with("products", "fprop bf16 bf16 bf16 10000x10000x5000: 952"),
                   "is 1050.4 TFLOP/s, more than the device's peak"));
  EXPECT_TRUE(
      says(with("products", "fprop bf16 bf16 bf16 10000x10000x5000: 952"), "device.peak_bf16 on line 4 is 1000"));
  EXPECT_EQ(with("products", "dgrad e4m3/tensor e5m2/tensor^T bf16 10000x10000x5000: 477"), "");
  EXPECT_TRUE(says(with("products", "dgrad e4m3/tensor e5m2/tensor^T bf16 10000x10000x5000: 476"), "device.peak_fp8"));
  EXPECT_EQ(with("products", "wgrad fp32 fp32 fp32+ 10000x10000x5000: 19048"), "");
  EXPECT_TRUE(says(with("products", "wgrad fp32 fp32 fp32+ 10000x10000x5000: 19047"), "device.peak_fp32"));
}

// 300 MB at 3000 GB/s take 100 us; 1.2 times the bandwidth 83.33 us.
TEST(Contradictions, kernels_faster_than_the_memory) {
  EXPECT_EQ(with("kernels", "any 300000000: 83.4"), "");
  EXPECT_TRUE(says(with("kernels", "any 300000000: 83.3"), "more than the device's memory has"));
  EXPECT_EQ(with("kernels", "any 256MiB: 1"), "") << "caches may hold it";
  EXPECT_NE(with("kernels", "any 268435457: 1"), "");
}

TEST(Contradictions, larger_collectives_are_not_much_faster) {
  const std::string small = "all_gather 2 1048576: 20\n  ";
  EXPECT_EQ(with("node_collectives", small + "all_gather 2 2097152: 10"), "");
  EXPECT_TRUE(says(with("node_collectives", small + "all_gather 2 2097152: 9.99"),
                   "takes 9.99 us, less than half of the 20 us for 1048576 bytes on line 7"));
  EXPECT_EQ(with("node_collectives", small + "all_gather 4 2097152: 9"), "") << "other ranks";
  EXPECT_EQ(with("node_collectives", small + "all_reduce 2 2097152: 9"), "") << "another operation";
  EXPECT_EQ(with("node_collectives", small + "all_gather 2 524288: 9"), "") << "smaller";
  EXPECT_NE(with("node_collectives", small + "all_gather 2 2MiB: 15\n  all_gather 2 4MiB: 9.9"), "")
      << "not the next smaller one, but one further down";
  EXPECT_NE(with("network_collectives", "all_gather 2x8 1048576: 20\n  all_gather 2x8 2097152: 9"), "");
  EXPECT_EQ(with("network_collectives", "all_gather 2x8 1048576: 20\n  all_gather 4x8 2097152: 9"), "");
}

TEST(Contradictions, ranks_of_a_node) {
  EXPECT_EQ(with("node_collectives", "all_gather 8 1048576: 20"), "");
  EXPECT_TRUE(says(with("node_collectives", "all_gather 16 1048576: 20"), "16 ranks are on one node"));
  EXPECT_TRUE(says(with("network_collectives", "all_gather 2x16 1048576: 20"), "node.devices on line 3 is 8"));
}

TEST(Contradictions, the_same_row_in_another_spelling) {
  const std::pair<const char*, const char*> same[] = {
      {"kernels", "any 1048576: 1\n  any 1MiB: 1"},
      {"kernels", "any 1048576: 1\n  any  1048576: 1"},
      {"products", "fprop bf16 bf16 bf16 9x9x9: 1\n  fprop bf16/none bf16 bf16 9x9x9: 1"},
      {"attention", "forward bf16 1x8x4x2x8: 1\n  'forward bf16  1x8x4x2x8': 1"},
      {"node_collectives", "all_gather 2 1kB: 1\n  all_gather +2 1000: 1"},
      {"network_collectives", "all_gather 2x8 1kB: 1\n  all_gather 2x8 1000B: 1"}};
  for (const auto& [group, rows] : same)
    EXPECT_TRUE(says(with(group, rows), "stands here a second time")) << with(group, rows);
  EXPECT_EQ(with("products", "fprop bf16 bf16 bf16 9x9x9: 1\n  fprop bf16 bf16 bf16+ 9x9x9: 1"), "");
  EXPECT_EQ(with("products", "fprop bf16 bf16 bf16 9x9x9: 1\n  fprop bf16 bf16 bf16 9x9x9 groups=2: 1"), "");
  for (const char* groups : {"groups=", "groups", "g", "groups=1", "groups=x"})
    EXPECT_TRUE(says(with("products", fmt::format("fprop bf16 bf16 bf16 9x9x9 {}: 1", groups)), "number of groups"))
        << groups;
  EXPECT_EQ(with("products", "fprop bf16 bf16 bf16 9x9x9: 1\n  fprop bf16 bf16^T bf16 9x9x9: 1"), "");
  EXPECT_EQ(with("attention", "backward bf16 1x8x4x2x8: 1\n  backward bf16 1x8x4x2x8 any-order: 1"), "");
}

TEST(Contradictions, slow_downs) {
  EXPECT_EQ(with("overlap", "product_by_copies: 0.5"), "");
  EXPECT_EQ(with("overlap", "product_by_copies: 10"), "");
  EXPECT_TRUE(says(with("overlap", "product_by_copies: 0.49"), "out of bounds"));
  EXPECT_TRUE(says(with("overlap", "product_by_copies: 10.1"), "expected a real number from 0.5 to 10"));
}

TEST(Contradictions, versions) {
  const std::string rest = ", name: x, kind: cuda}\nsources: {a: 'chosen: x'}\n";
  EXPECT_EQ(error_of("machine: {format: 1" + rest), "");
  for (const char* format : {"2", "0", "-1", "1000000"})
    EXPECT_TRUE(says(error_of(fmt::format("machine: {{format: {}{}nothing: 3\n", format, rest)),
                     fmt::format("format {} of machine files is not known", format)));
  EXPECT_FALSE(says(error_of("machine: {format: 2" + rest + "nothing: 3\n"), "nothing")) << "that may be right there";
  for (const char* format : {"'1'", "1.0", "one", ""})
    EXPECT_NE(error_of(fmt::format("machine: {{format: {}{}", format, rest)), "") << format;
}

}  // namespace
}  // namespace shard8::machine
