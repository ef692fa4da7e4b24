// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/error.hpp"
#include "tests/trace/example.hpp"
#include "trace/rank_trace.hpp"

namespace shard8::trace::tests {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class Files : public ::testing::Test {
 protected:
  Files() : folder_(fs::temp_directory_path() / fmt::format("shard8_trace_{}", getpid())) {
    fs::remove_all(folder_);
    fs::create_directory(folder_);
  }
  ~Files() override {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  void write(const std::string& name, const std::string& text) const { std::ofstream(folder_ / name) << text; }
  void write_ranks(int ranks) const {
    for (int rank = 0; rank < ranks; ++rank) write(rank_file_name("trace.json", rank), to_text(example(rank)));
  }
  std::string error_of_reading(const std::string& name = "") const {
    try {
      read_run(folder_.string(), name);
    } catch (const base::Error& e) {
      EXPECT_EQ(e.code(), base::ExitCode::environment);
      return e.what();
    }
    return "";
  }
  fs::path folder_;
};

TEST_F(Files, what_is_written_is_read) {
  const RankTrace trace = example();
  const RankTrace read = from_text(to_text(trace), "here");
  ASSERT_EQ(read.spans.size(), trace.spans.size());
  EXPECT_EQ(to_text(read), to_text(trace));
  EXPECT_EQ(read.spans[1].linear, "qkv");
  EXPECT_EQ(read.spans[1].m, 4);
  EXPECT_EQ(read.spans[7].exchange, "qkv_fprop");
}

TEST_F(Files, the_mesh_is_read_with_its_expert_groups) {
  RankTrace trace = example(1);
  EXPECT_EQ(to_text(trace).find("\"expert\""), std::string::npos);
  EXPECT_EQ(from_text(to_text(trace), "here").mesh, trace.mesh);
  trace.mesh = trace.mesh.with_experts(4);
  trace.spans = {call(50, 250, "all_to_all", "expert", "dispatch")};
  const RankTrace read = from_text(to_text(trace), "here");
  EXPECT_EQ(read.mesh, trace.mesh);
  EXPECT_EQ(group_with(groups_of(read.mesh), "expert", 1)->ranks, (std::vector<int>{0, 1, 2, 3}));
  EXPECT_FALSE(chakra_of(read).empty());
}

TEST_F(Files, names) {
  EXPECT_EQ(rank_file_name("trace.json", 3), "trace.rank0003.json");
  EXPECT_EQ(rank_file_name("a.b.json", 12345), "a.b.rank12345.json");
}

TEST_F(Files, every_file_of_half_a_length_is_refused) {
  const std::string whole = to_text(example());
  for (std::size_t length = 0; length + 2 < whole.size(); length += 7) {
    try {
      from_text(whole.substr(0, length), "half.json");
      ADD_FAILURE() << length << " of " << whole.size() << " bytes are taken for a trace";
    } catch (const base::Error& e) {
      EXPECT_THAT(e.what(), HasSubstr("'half.json' is not a whole trace of a rank"));
    }
  }
}

TEST_F(Files, spans_that_are_missing_are_found) {
  std::string text = to_text(example());
  const auto line = text.find("\n{", text.find("spans"));
  text.erase(line, text.find('\n', line + 1) - line);
  EXPECT_THROW(from_text(text, "short.json"), base::Error);
}

TEST_F(Files, errors_of_folders) {
  EXPECT_THAT(error_of_reading(), HasSubstr("has no trace: run the deck with output.trace=trace.json"));
  write_ranks(3);
  EXPECT_THAT(error_of_reading(),
              HasSubstr("trace.rank0003.json' is missing: a trace needs the file of every rank, and "
                        "this one has 4 ranks"));
  write_ranks(4);
  EXPECT_EQ(error_of_reading(), "");
  RankTrace other = example(2);
  other.run = "another";
  write("trace.rank0002.json", to_text(other));
  EXPECT_THAT(error_of_reading(), HasSubstr("rank 2 of 4 of run another, not rank 2 of 4 of run run"));
  write("other.rank0000.json", "{}");
  EXPECT_THAT(error_of_reading(), HasSubstr("several traces, other.json and trace.json: say which with --name"));
  EXPECT_THAT(error_of_reading("other.json"), HasSubstr("is not a whole trace of a rank (it has no key shard8_trace)"));
  EXPECT_THROW(read_run((folder_ / "nothere").string(), ""), base::Error);
}

TEST_F(Files, times_are_on_the_clock_of_rank_0) {
  // The clock of rank 1 is 5 ms behind at first and 7 ms behind 1 s later.
  const std::vector<ClockPoint> clock{{1000000, 5000000, 0}, {1001000000, 7000000, 0}};
  EXPECT_EQ(on_root_clock(clock, 1000000), 6000000);
  EXPECT_EQ(on_root_clock(clock, 501000000), 507000000);
  EXPECT_EQ(on_root_clock(clock, 1001000000), 1008000000);
  EXPECT_EQ(on_root_clock({}, 17), 17);
  EXPECT_EQ(on_root_clock({{10, 3, 0}}, 17), 20);
  std::int64_t last = 0;
  for (std::int64_t t = 1000000; t < 1001000000; t += 999983) {
    EXPECT_GT(on_root_clock(clock, t), last);
    last = on_root_clock(clock, t);
  }
}

TEST(Groups, of_a_mesh) {
  const auto groups = groups_of({2, 2, 2});
  EXPECT_EQ(group_with(groups, "tensor", 5)->ranks, (std::vector<int>{4, 5}));
  EXPECT_EQ(group_with(groups, "shard", 5)->ranks, (std::vector<int>{5, 7}));
  EXPECT_EQ(group_with(groups, "replicate", 5)->ranks, (std::vector<int>{1, 5}));
  EXPECT_EQ(group_with(groups, "model", 5)->ranks, (std::vector<int>{4, 5, 6, 7}));
  EXPECT_EQ(group_with(groups, "data", 5)->ranks, (std::vector<int>{1, 3, 5, 7}));
  EXPECT_EQ(group_with(groups, "world", 5)->ranks.size(), 8u);
  EXPECT_EQ(group_with(groups_of({1, 1, 2}), "shard", 0), nullptr);
  for (std::size_t i = 0; i < groups.size(); ++i) EXPECT_EQ(groups[i].number, static_cast<int>(i));
}

std::string error_of(const TimelineChoice& choice) {
  try {
    timeline(example(), choice);
  } catch (const base::Error& e) {
    EXPECT_EQ(e.code(), base::ExitCode::deck);
    return e.what();
  }
  return "";
}

TEST(Timeline, window_of_a_layer) {
  const LayerWindow forward = layer_window(example(), "layer 0", 3, "forward");
  EXPECT_EQ(forward.begin, 100 * kMicro);
  EXPECT_EQ(forward.end, 500 * kMicro);
  EXPECT_EQ(forward.work.size(), 3u);
  EXPECT_EQ(forward.collectives.size(), 2u);
  const LayerWindow backward = layer_window(example(), "layer 0", 3, "backward");
  EXPECT_EQ(backward.begin, 500 * kMicro);
  EXPECT_EQ(backward.end, 900 * kMicro);
  EXPECT_EQ(backward.collectives.size(), 1u);
}

TEST(Timeline, picture) {
  const std::string svg = timeline(example(), {});
  EXPECT_EQ(svg.rfind("<svg ", 0), 0u);
  EXPECT_THAT(svg, HasSubstr("width=\"900\""));
  EXPECT_THAT(svg, HasSubstr("prefers-color-scheme: dark"));
  EXPECT_THAT(svg, HasSubstr(">qkv fprop<"));
  EXPECT_THAT(svg, HasSubstr(">exchanges<"));
  EXPECT_THAT(svg, HasSubstr("layer 0 qkv_fprop all_gather, 4096 bytes in group tensor: 0.110 ms"));
  EXPECT_EQ(svg.substr(svg.size() - 7), "</svg>\n");
}

TEST(Timeline, what_the_trace_has_not) {
  EXPECT_EQ(error_of({.layer = 5, .step = -1}), "--layer 5: the trace has layers 0 to 0");
  EXPECT_EQ(error_of({.layer = 0, .step = 9}), "--step 9: the trace has steps 3");
}

}  // namespace

}  // namespace shard8::trace::tests
