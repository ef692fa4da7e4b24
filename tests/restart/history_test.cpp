// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "base/utc.hpp"
#include "checkpoint/directory.hpp"
#include "tests/io/files.hpp"
#include "tests/restart/program.hpp"

// `shard8 history` on the files that stopped, killed and requeued runs leave, against sums of these files.

namespace shard8 {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr double kClock_s = 0.002;  // times are written to the millisecond

class History : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    test::write_bytes(folder_ / "deck.yaml", R"(
model:      {arch: llama, hidden: 32, ffn: 64, layers: 1, heads: 2, vocab: 256, seq: 16}
mesh:       {shard: auto}
precision:  {compute: fp32}
optimizer:  {lr: 0.003}
data:       {kind: synthetic, batch: 4}
run:        {steps: 12, log_every: 1000}
checkpoint: {every: 2, keep: 5}
)");
  }
  fs::path at(const std::string& name) const { return fs::path(folder_.path()) / name; }
  test::ProgramOptions options(std::vector<std::string> arguments) const {
    return {.folder = folder_.path(), .ranks = GetParam(), .arguments = std::move(arguments)};
  }
  void expect_ends(int code, std::vector<std::string> arguments) const {
    const auto end = test::run_program(options(std::move(arguments)));
    ASSERT_EQ(end.code, code) << end.output;
  }
  /// What `shard8 history out` prints.
  test::ProgramEnd printed(std::vector<std::string> arguments = {}, const std::string& folder = "out") const {
    return test::run_program({.folder = folder_.path(),
                              .deck = folder,
                              .ranks = 0,
                              .arguments = std::move(arguments),
                              .command = "history"});
  }
  json history() const {
    const auto end = printed({"--json"});
    EXPECT_EQ(end.code, 0) << end.output;
    return json::parse(end.output);
  }
  bool has_checkpoint() const {
    return fs::exists(at("out/metrics.jsonl")) &&
           !checkpoint::Directory(at("out/checkpoints").string()).scan().usable.empty();
  }
  json file(const std::string& name) const { return json::parse(test::read_bytes(at(name))); }
  /// Seconds of each step in metrics.jsonl; a last line that was cut is left out.
  std::map<int, double> steps() const {
    std::map<int, double> found;
    std::istringstream lines(test::read_bytes(at("out/metrics.jsonl")));
    for (std::string line; std::getline(lines, line) && !lines.eof();) {
      const json step = json::parse(line);
      found[step["step"]] = step["step_s"];
    }
    return found;
  }
  static double sum(const std::map<int, double>& steps, int first, int end) {
    double s = 0;
    for (auto it = steps.lower_bound(first); it != steps.end() && it->first < end; ++it) s += it->second;
    return s;
  }
  static double unix_of(const json& text) { return base::unix_of(text.get<std::string>()).value(); }
  static void expect_sum(const json& h) {
    double all = 0;
    for (const char* part : {"counted_s", "lost_s", "held_up_s", "start_up_s", "gaps_s", "other_s"})
      all += h[part].get<double>();
    EXPECT_NEAR(all, h["wall_s"].get<double>(), 1e-6);
    EXPECT_NEAR(unix_of(h["ended"]) - unix_of(h["began"]), h["wall_s"].get<double>(), 1e-3);
    EXPECT_NEAR(h["goodput"].get<double>(), h["counted_s"].get<double>() / h["wall_s"].get<double>(), 1e-9);
  }

  const test::TempFolder folder_;
};

TEST_P(History, OfLegsThatStopped) {
  expect_ends(75, {"run.stop_after=5"});
  expect_ends(75, {"run.stop_after=3"});
  expect_ends(0, {});
  const json h = history();
  EXPECT_EQ(h["training"], file("out/training.json")["id"]);
  EXPECT_EQ(h["finished"], true);
  EXPECT_EQ(h["counted"], 12);
  EXPECT_EQ(h["lost"], 0);
  ASSERT_EQ(h["legs"].size(), 3u);
  const auto recorded = steps();
  ASSERT_EQ(recorded.size(), 12u);
  double counted = 0, before = 0;
  const int first[] = {0, 5, 8, 12};
  for (std::size_t i = 0; i < 3; ++i) {
    const json& leg = h["legs"][i];
    const json summary = file(i == 2 ? "out/summary.json" : fmt::format("out/summary.leg_{}.json", i + 1));
    const json& times = summary["leg_times"];
    EXPECT_EQ(leg["first_step"], first[i]);
    EXPECT_EQ(leg["counted"], first[i + 1] - first[i]);
    EXPECT_EQ(leg["notes"], json::array());
    EXPECT_EQ(leg["end"], i == 2 ? "finished" : summary["end"]["reason"].get<std::string>());
    EXPECT_EQ(leg["began"], times["began"]);
    EXPECT_GE(unix_of(leg["ended"]) + kClock_s, unix_of(times["ended"]));
    EXPECT_EQ(leg["start_up_s"], times["start_up_s"]);
    EXPECT_GT(leg["start_up_s"], 0);
    EXPECT_NEAR(times["steps_s"].get<double>(), sum(recorded, first[i], first[i + 1]), 1e-9);
    EXPECT_NEAR(leg["counted_s"].get<double>(), times["steps_s"].get<double>() - times["held_up_s"].get<double>(),
                1e-9);
    EXPECT_NEAR(leg["held_up_s"].get<double>(), times["held_up_s"].get<double>() + times["after_last_s"].get<double>(),
                1e-9);
    EXPECT_GE(leg["other_s"], -kClock_s);
    if (i > 0) {
      EXPECT_NEAR(leg["gap_s"].get<double>(), unix_of(leg["began"]) - before, kClock_s);
      EXPECT_GT(leg["gap_s"], -0.02);
    }
    before = unix_of(leg["ended"]);
    counted += leg["counted_s"].get<double>();
  }
  EXPECT_NEAR(h["counted_s"].get<double>(), counted, 1e-9);
  expect_sum(h);
  const auto table = printed();
  EXPECT_EQ(table.code, 0);
  EXPECT_NE(table.output.find("3 legs, finished\n"), std::string::npos) << table.output;
  EXPECT_NE(table.output.find(": 12 steps that count, 0 lost\n"), std::string::npos) << table.output;
}

TEST_P(History, OfLegsThatWereKilled) {
  test::ProgramRun run(options({"run.steps=1000000", "checkpoint.every=50"}));
  for (int i = 0; i < 30000 && !run.ended() && (!has_checkpoint() || steps().size() < 60); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  ASSERT_FALSE(run.ended()) << run.output();
  for (const pid_t rank : run.ranks()) ::kill(rank, SIGKILL);
  run.wait();
  ASSERT_FALSE(fs::exists(at("out/summary.json")));
  const auto of_killed = steps();
  const double written = base::last_write(at("out/metrics.jsonl").string()).value();

  json h = history();  // before the job is requeued
  EXPECT_EQ(h["finished"], false);
  ASSERT_EQ(h["legs"].size(), 1u);
  EXPECT_EQ(h["legs"][0]["end"], "killed or failed, or runs");
  EXPECT_EQ(h["counted"], of_killed.size());
  EXPECT_NEAR(unix_of(h["legs"][0]["ended"]), written, kClock_s);
  expect_sum(h);

  expect_ends(75, {"run.steps=1000000", "checkpoint.every=50", "run.stop_after=7"});
  h = history();
  const int again = file("out/training.json")["legs"][1]["first_step"], count = static_cast<int>(of_killed.size());
  ASSERT_GE(again, 50);
  ASSERT_EQ(h["legs"].size(), 2u);
  const json& killed = h["legs"][0];
  EXPECT_EQ(killed["end"], "killed or failed");
  EXPECT_EQ(killed["counted"], again);
  EXPECT_EQ(killed["lost"], count - again);
  EXPECT_NEAR(killed["lost_s"].get<double>(), sum(of_killed, again, count), 1e-9);
  EXPECT_NEAR(killed["counted_s"].get<double>(), sum(of_killed, 0, again), 1e-9);
  EXPECT_EQ(killed["held_up_s"], nullptr);
  EXPECT_GT(killed["start_up_s"], 0);
  EXPECT_NEAR(unix_of(killed["ended"]), written, kClock_s);
  EXPECT_EQ(killed["notes"].size(), 2u);
  EXPECT_EQ(h["legs"][1]["counted"], 7);
  EXPECT_GT(h["legs"][1]["gap_s"], 0);
  EXPECT_EQ(h["counted"], again + 7);
  expect_sum(h);
}

TEST_P(History, OfFilesThatAreDamaged) {
  if (GetParam() > 1) GTEST_SKIP() << "the same on any number of ranks";
  const auto expect_refused = [&](const std::string& folder, const std::string& text) {
    const auto end = printed({}, folder);
    EXPECT_EQ(end.code, 2) << end.output;
    EXPECT_NE(end.output.find(text), std::string::npos) << end.output;
  };
  expect_refused("nowhere", "error: it does not exist: give the output.dir of a run that trained");
  expect_refused(".", "error: there is no training.json in it: give the output.dir of a run that trained");
  expect_ends(75, {"run.stop_after=3"});
  const std::string summary = test::read_bytes(at("out/summary.json"));
  test::write_bytes(at("out/summary.json"), summary.substr(0, summary.size() / 2));
  expect_refused("out", "summary.json: error: is not a whole summary of a run: move the file elsewhere");
  fs::remove(at("out/summary.json"));  // as the text says
  const json leg = history()["legs"][0];
  EXPECT_EQ(leg["end"], "run.stop_after");
  EXPECT_EQ(leg["counted"], 3);
  EXPECT_EQ(leg["notes"], json({"no summary: hold-up of checkpoints is in its steps"}));
  test::write_bytes(at("out/training.json"), "{");
  expect_refused("out", "remove this file if they belong to this training");
}

INSTANTIATE_TEST_SUITE_P(, History, testing::Values(1, 2), testing::PrintToStringParamName());

}  // namespace
}  // namespace shard8
