// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "train/algorithms.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/error.hpp"

namespace shard8::train {
namespace {

const std::string kAlgorithms =
    "cublaslt 130100 compute_capability 90 multiprocessors 132\n"
    "gemm bf16 64 64 64 bf16 none 1 bf16 none 1 0 0 0 0 16 us 3.5 4 0 of 1 8 0 algorithm 0 1 2 3 4 5 6 7 8\n";

/// As conditions_of() names them.
const profile::Conditions kNow{{"program", "0.1.0 (abc)"},
                               {"machine", "NVIDIA H100"},
                               {"CUDA", "13.0"},
                               {"CUDA driver", "13.0"},
                               {"cuBLASLt", "13.1.0"},
                               {"cuDNN", "9.19.0"},
                               {"NCCL", "2.28.9"},
                               {"BLAS", "none"},
                               {"MPI", "MPICH 4.0.2"},
                               {"threads a rank", "1"},
                               {"waiting", "spin"},
                               {"nodes", "1"},
                               {"ranks a node", "2"},
                               {"cores a node", "16"},
                               {"nodes of a tensor group", "1"},
                               {"ranks a device", "1"},
                               {"transport", "memory of peers"}};

bool is_required(const std::string& name) {
  return std::find(std::begin(kAlgorithmsRequire), std::end(kAlgorithmsRequire), name) != std::end(kAlgorithmsRequire);
}

TEST(AlgorithmsText, round_trip) {
  for (const bool from_checkpoint : {false, true}) {
    const std::string text = text_of_algorithms(kAlgorithms, kNow, from_checkpoint);
    for (const auto& [name, value] : kNow)
      EXPECT_NE(text.find('"' + name + "\": \"" + value + '"'), std::string::npos) << name << " is not recorded";
    std::string reason;
    EXPECT_EQ(algorithms_of_file_text(text, kNow, reason), kAlgorithms) << reason;
  }
}

/// What products and their times depend on is required. A rebuilt program, another mesh or transport is not: equal
/// products keep their algorithms, and so their bits.
TEST(AlgorithmsText, each_condition_alone) {
  for (const char* const name : {"machine", "CUDA", "CUDA driver", "cuBLASLt", "ranks a device"})
    EXPECT_TRUE(is_required(name)) << name;
  for (const char* const name : {"program", "MPI", "transport", "nodes"}) EXPECT_FALSE(is_required(name)) << name;
  const std::string text = text_of_algorithms(kAlgorithms, kNow, false);
  for (std::size_t i = 0; i < kNow.size(); ++i) {
    profile::Conditions now = kNow;
    now[i].second = "another";
    std::string reason;
    const std::string algorithms = algorithms_of_file_text(text, now, reason);
    if (is_required(now[i].first)) {
      EXPECT_EQ(algorithms, "");
      EXPECT_EQ(reason, now[i].first + " was " + kNow[i].second + ", and is another now");
    } else {
      EXPECT_EQ(algorithms, kAlgorithms) << reason;
    }
    profile::Conditions before = kNow;
    before.erase(before.begin() + static_cast<std::ptrdiff_t>(i));
    reason.clear();
    EXPECT_EQ(algorithms_of_file_text(text_of_algorithms(kAlgorithms, before, false), kNow, reason).empty(),
              is_required(kNow[i].first))
        << reason;
  }
}

TEST(AlgorithmsText, refused) {
  const std::string text = text_of_algorithms(kAlgorithms, kNow, false);
  const auto reason_of = [](const std::string& bad) {
    std::string reason;
    EXPECT_EQ(algorithms_of_file_text(bad, kNow, reason), "") << bad;
    return reason;
  };
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string other = text;
    EXPECT_NE(other.find(from), std::string::npos) << from;
    return reason_of(other.replace(other.find(from), from.size(), to));
  };
  EXPECT_EQ(reason_of(kAlgorithms), "its format is 1, and this program reads 2");
  EXPECT_EQ(reason_of(""), "it is empty");
  for (std::size_t bytes = 0; bytes + 2 < text.size(); bytes += 5)
    EXPECT_NE(reason_of(text.substr(0, bytes)), "") << bytes;
  EXPECT_NE(changed("\"algorithms\": [", "\"algorithms\": [7, "), "");
  EXPECT_NE(changed("\"algorithms\": [", "\"other\": ["), "");
  EXPECT_NE(changed("\"kind\": \"algorithms\"", "\"kind\": \"overlap\""), "");
}

}  // namespace
}  // namespace shard8::train
