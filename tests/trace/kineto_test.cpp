// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "trace/rank_trace.hpp"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/trace/example.hpp"

namespace shard8::trace::tests {
namespace {

using nlohmann::json;

std::vector<json> events_of(const json& trace, const std::string& category) {
  std::vector<json> events;
  for (const json& e : trace.at("traceEvents"))
    if (e.at("ph") == "X" && e.at("cat") == category) events.push_back(e);
  return events;
}

TEST(Kineto, of_one_rank) {
  const json trace = json::parse(kineto_of(example(1)));
  EXPECT_EQ(trace.at("distributedInfo").at("rank"), 1);
  EXPECT_EQ(trace.at("distributedInfo").at("world_size"), 4);
  const auto kernels = events_of(trace, "kernel");
  ASSERT_EQ(kernels.size(), 7u);  // three products, an update, three collectives
  std::map<std::string, int> names;
  for (const json& k : kernels) {
    ++names[k.at("name")];
    EXPECT_TRUE(k.at("ts").is_number_integer());
    EXPECT_TRUE(k.at("dur").is_number_integer());
    EXPECT_GE(k.at("args").at("stream"), 7);
    EXPECT_TRUE(k.at("args").contains("correlation"));
  }
  EXPECT_EQ(names["ncclDevKernel_AllGather"], 2);
  EXPECT_EQ(names["ncclDevKernel_ReduceScatter"], 1);
  EXPECT_EQ(names["qkv fprop"], 1);
  EXPECT_EQ(names["adamw"], 1);
  const auto annotations = events_of(trace, "user_annotation");
  EXPECT_EQ(annotations.front().at("name"), "ProfilerStep#3");
  EXPECT_EQ(annotations.front().at("dur"), 1000);
}

TEST(Kineto, collectives_say_what_they_move) {
  for (const json& e : events_of(json::parse(kineto_of(example(1))), "kernel")) {
    if (e.at("name") != "ncclDevKernel_AllGather" || e.at("args").value("exchange", "").empty()) continue;
    EXPECT_EQ(e.at("args").at("Process Group Ranks"), "[0,1]");
    EXPECT_EQ(e.at("args").at("Group size"), 2);
    EXPECT_EQ(e.at("args").at("In msg nelems"), 512);
    EXPECT_EQ(e.at("args").at("Out msg nelems"), 1024);
    EXPECT_EQ(e.at("args").at("exchange"), "qkv_fprop");
  }
}

TEST(Kineto, of_all_ranks) {
  const json trace = json::parse(kineto_of_all({example(0), example(1), example(2), example(3)}));
  std::map<int, int> kernels;
  for (const json& e : events_of(trace, "kernel")) ++kernels[e.at("pid")];
  EXPECT_EQ(kernels, (std::map<int, int>{{0, 7}, {1, 7}, {2, 7}, {3, 7}}));
}

// Perfetto wants the events of one thread to lie inside each other or apart.
TEST(Kineto, events_of_a_thread_nest) {
  RankTrace rank = example();
  rank.spans.push_back(call(260, 450, "all_gather", "shard"));
  rank.spans.push_back(call(300, 500, "all_gather", "shard"));
  for (const Times times : {Times::nanoseconds, Times::whole_microseconds}) {
    std::map<int, std::vector<std::pair<double, double>>> threads;
    const json trace = json::parse(kineto_of(rank, times));
    for (const json& e : trace.at("traceEvents"))
      if (e.at("ph") == "X") threads[e.at("tid")].emplace_back(e.at("ts"), double(e.at("ts")) + double(e.at("dur")));
    for (const auto& [thread, spans] : threads)
      for (const auto& [a, b] : spans)
        for (const auto& [c, d] : spans) EXPECT_FALSE(a < c && c < b && b < d) << "thread " << thread;
  }
}

// A thread holds what its name says, whichever collective was first and however many overlap.
TEST(Kineto, threads_of_collectives_do_what_they_are_called) {
  RankTrace rank = example();
  rank.spans.push_back(call(405, 420, "all_reduce", "tensor"));
  rank.spans.push_back(call(0, 20, "reduce_scatter", "tensor", "proj_fprop"));
  for (int i = 0; i < 12; ++i) {
    rank.spans.push_back(call(500, 600 + i, "all_gather", "tensor", "qkv_fprop"));
    rank.spans.push_back(call(500, 600 + i, "all_gather", "shard"));
  }
  rank.spans.push_back(call(650, 660, "all_reduce", "replicate"));
  rank.spans.push_back(call(670, 680, "all_gather", "model"));
  const json trace = json::parse(kineto_of(rank));
  std::map<int, std::string> names;
  for (const json& e : trace.at("traceEvents"))
    if (e.at("name") == "thread_name") {
      EXPECT_FALSE(names.contains(e.at("tid"))) << "a thread has two names";
      names[e.at("tid")] = e.at("args").at("name");
    }
  int collectives = 0;
  for (const json& e : events_of(trace, "kernel")) {
    const json& args = e.at("args");
    if (!args.contains("Collective name")) continue;
    ++collectives;
    const bool gather = args.at("Collective name") == "all_gather";
    EXPECT_EQ(names.at(e.at("tid")),
              args.at("Process Group Description").get<std::string>() + (gather ? " gather" : " reduce"));
  }
  EXPECT_EQ(collectives, 3 + 2 + 24 + 2);
}

TEST(Kineto, overlap) {
  const Overlap o = overlap_of(example());
  EXPECT_NEAR(o.in_flight, (200 + 110 + 350) * 1e-6, 1e-9);
  // The gather is overlapped with the product from 100, the exchange from 290 to 300, the reduction with backward and
  // the update from 600 to 950.
  EXPECT_NEAR(o.overlapped, (150 + 10 + 350) * 1e-6, 1e-9);
  EXPECT_NEAR(o.steps, 1e-3, 1e-9);
  EXPECT_NEAR(o.covered, 1e-3, 1e-9);
}

// Three calls that are in flight all the time, longer than the step itself.
TEST(Kineto, time_in_flight_is_at_most_the_step) {
  RankTrace trace = example();
  Span call;
  call.kind = Span::Kind::collective;
  call.begin = trace.steps.front().begin - 1000;
  call.end = trace.steps.back().end + 1000;
  trace.spans.insert(trace.spans.end(), 3, call);
  const Overlap o = overlap_of(trace);
  EXPECT_NEAR(o.in_flight, o.steps, 1e-12);
  EXPECT_NEAR(o.overlapped, o.compute, 1e-12);
}

TEST(Kineto, time_in_flight_on_hosts_is_no_overlap) {
  RankTrace host = example(), gpu = example();
  host.device = "host";
  gpu.device = "NVIDIA H100";
  EXPECT_EQ(overlap_text({host}).find("overlap"), std::string::npos) << overlap_text({host});
  EXPECT_NE(overlap_text({host}).find("in flight ms   of it compute  exposed ms    compute %"), std::string::npos);
  EXPECT_NE(overlap_text({gpu}).find("overlap %"), std::string::npos);
}

}  // namespace
}  // namespace shard8::trace::tests
