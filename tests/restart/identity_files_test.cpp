// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/restart/identity.hpp"

#include <fmt/format.h>

#include <thread>

namespace shard8 {
namespace {

class Legs : public Identity {};
class Nearly : public Identity {};
class InputContent : public Identity {};
class Held : public Identity {};
class EarlyFormat : public Identity {};

TEST_F(Legs, HaveASummaryEachAndTotals) {
  expect_ends(75, {"run.stop_after=3"});
  expect_ends(75, {"run.stop_after=3"});
  expect_ends(0, {}, {"all 3 legs: 10 steps from step 0, 0 trained again"});
  EXPECT_EQ(summary("out/summary.leg_1.json")["training"]["leg"], 1);
  EXPECT_EQ(summary("out/summary.leg_2.json")["training"]["leg"], 2);
  EXPECT_TRUE(fs::exists(at("out/timing.leg_2.csv")));
  const json last = summary("out/summary.json");
  EXPECT_EQ(last["schema"], 2);
  EXPECT_EQ(last["training"]["leg"], 3);
  EXPECT_EQ(last["training"]["from"], "out/checkpoints/step_00000006");
  EXPECT_EQ(last["totals"]["legs"], 3);
  EXPECT_EQ(last["totals"]["steps"], 10);
  EXPECT_EQ(last["totals"]["tokens"], 10 * 4 * 16);
}

TEST_F(Legs, ThatWereKilledAreCounted) {
  expect_ends(75, {"run.stop_after=5"});
  fs::remove_all(at("out/checkpoints/step_00000005"));
  expect_ends(0, {}, {"all 2 legs: 10 steps from step 0, 1 trained again"});
}

TEST_F(Legs, TotalsSayWhichStepsHaveNoLine) {
  expect_ends(75, {"run.stop_after=3"});
  expect_ends(
      0, {"output.metrics=other.jsonl"},
      {"all 2 legs: 7 steps from step 0 (3 more, without a line in metrics.jsonl, do not count here), 0 trained "
       "again"});
  EXPECT_EQ(summary("out/summary.json")["totals"]["not_recorded"], 3);
}

TEST_F(Legs, AMetricsFileThatCannotBeReadIsNotEmpty) {
  expect_ends(75, {"run.stop_after=3"});
  fs::remove(at("out/metrics.jsonl"));
  fs::create_symlink("/proc/self/clear_refs", at("out/metrics.jsonl"));  // a regular file that is only written
  expect_ends(3, {}, {"metrics.jsonl': cannot read: "});
}

TEST_F(Legs, StepsWithoutALineAreTold) {
  expect_ends(75, {"run.stop_after=3"});
  fs::remove(at("out/metrics.jsonl"));
  expect_ends(75, {"run.stop_after=1"}, {"3 steps have no line that can be read, the first is step 0"});
  test::write_bytes(at("out/metrics.jsonl"), "rubbish\n" + test::read_bytes(at("out/metrics.jsonl")));
  expect_ends(0, {}, {"1 line is no metrics of a step and left out"});
}

TEST_F(Nearly, ACheckpointIsNotNothing) {
  expect_ends(75, {"run.stop_after=4"});
  fs::remove_all(at("out/checkpoints/step_00000002"));
  fs::rename(at("out/checkpoints/step_00000004"), at("kept"));
  expect_refused(4, {}, {"there is no checkpoint in out/checkpoints that can be used", "what is left of some: latest"});
  fs::remove(at("out/checkpoints/latest"));
  for (const char* name : {"step_4", "step_00000004.bak", "step_00000004 (copy)"}) {
    fs::rename(at("kept"), at("out/checkpoints") / name);
    expect_refused(4, {}, {"what is left of some: ", name});
    fs::rename(at("out/checkpoints") / name, at("kept"));
  }
  fs::copy(at("kept"), at("out/checkpoints"), fs::copy_options::recursive);  // its files without its folder
  expect_refused(4, {}, {"what is left of some: manifest.json, shard_r0000.h5"});
}

TEST_F(Nearly, ACutOffTrainingDoesNotBeginAgainBesideIt) {
  const std::vector<std::string> none = {"--restart", "none"};
  expect_ends(75, with(none, {"run.stop_after=4"}));
  std::string file = test::read_bytes(at("out/training.json"));  // as a kill behind the checkpoint leaves it
  const auto key = file.find("\"checkpoint\": 4");
  ASSERT_NE(key, std::string::npos) << file;
  file.replace(key, 15, "\"checkpoint\": null");
  test::write_bytes(at("out/training.json"), file);
  fs::remove_all(at("out/checkpoints/step_00000002"));
  fs::remove_all(at("out/checkpoints/step_00000004"));
  expect_refused(4, none,
                 {"there is no checkpoint in out/checkpoints that can be used", "what is left of some: latest"});
}

TEST_F(Nearly, GoingBackIsTold) {
  expect_ends(75, {"run.stop_after=4"});
  const auto first = manifest("out/checkpoints/step_00000002");
  fs::remove_all(at("out/checkpoints/step_00000004"));
  expect_ends(0, {}, {"latest' names step_00000004, which cannot be used or is gone: going back to step_00000002"});
  EXPECT_EQ(owners("out/metrics.jsonl"), std::vector<std::string>(10, first.run));
}

TEST_F(InputContent, IsHeldAgainstTheCheckpoint) {
  expect_ends(75, {"run.stop_after=4"});
  const auto m = manifest("out/checkpoints/step_00000004");
  ASSERT_TRUE(m.data);
  EXPECT_EQ(m.data->length, 4000U);
  EXPECT_EQ(m.data->samples, 249);
  // The same text elsewhere is the same text.
  fs::create_directory(at("moved"));
  const std::string text = test::read_bytes(at("text.txt"));
  test::write_bytes(at("moved/a.txt"), text.substr(0, 1000));
  test::write_bytes(at("moved/b.txt"), text.substr(1000));
  expect_ends(75, {"run.stop_after=1", "data.path=moved"});
  test::write_bytes(at("text.txt"), text + "more");
  expect_refused(4, {}, {"content of data.path: 4000 elements with digest ", "4004 elements"});
  std::string other = text;
  other[2000] = '!';
  test::write_bytes(at("text.txt"), other);
  expect_refused(4, {}, {"content of data.path: "});
  expect_ends(0, {"checkpoint.allow_changes=true", "checkpoint.restart=out/checkpoints", "output.dir=child"},
              {"changed    content of data.path", "a child of " + m.run});
}

TEST_F(InputContent, OfValidationDataMayChange) {
  test::write_bytes(at("v.txt"), std::string(1000, 'a'));
  const std::vector<std::string> validated = {"run.validate_every=2", "data.validation_path=v.txt"};
  expect_ends(75, with(validated, {"run.stop_after=4"}));
  const auto first = manifest("out/checkpoints/step_00000004");
  test::write_bytes(at("v.txt"), std::string(1000, 'b'));
  expect_ends(0, validated, {"changed    content of data.validation_path: 1000 elements with digest "});
  const auto last = manifest("out/checkpoints/step_00000010");
  EXPECT_EQ(last.run, first.run);
  EXPECT_NE(last.validation->digest, first.validation->digest);
}

TEST_F(InputContent, OfInitialWeights) {
  expect_ends(0, {"run.steps=2", "output.dir=first"}, {"init       random weights, model.init_seed 1234"});
  expect_ends(75, {"model.init_file=first/checkpoints", "run.stop_after=4"},
              {"init       weights of first/checkpoints/step_00000002, digest "});
  EXPECT_EQ(summary("out/summary.json")["inputs"]["initial_weights"]["path"], "first/checkpoints/step_00000002");
  const auto m = manifest("out/checkpoints/step_00000004");
  ASSERT_TRUE(m.weights);
  // Elsewhere, and not at all: the file is not read.
  fs::rename(at("first"), at("second"));
  expect_ends(75, {"model.init_file=second/checkpoints", "run.stop_after=1"}, {"model.init_file is not read"});
  expect_ends(75, {"run.stop_after=1"});
  EXPECT_EQ(manifest("out/checkpoints/step_00000006").weights, m.weights);
  // Other weights.
  expect_ends(0, {"run.steps=2", "output.dir=third", "model.init_seed=7"});
  expect_refused(4, {"model.init_file=third/checkpoints"},
                 {"content of model.init_file: ", "values, names and shapes of all tensors in the file, read or not",
                  "the key can be left out"});
  // Weights for a training that began with random ones would not be read.
  expect_ends(75, {"run.stop_after=4", "output.dir=random"});
  expect_refused(4, {"model.init_file=third/checkpoints", "output.dir=random"},
                 {"content of model.init_file: none (it began with random weights) in the checkpoint"});
}

TEST_F(InputContent, TheCursorCountsSequences) {
  expect_ends(75, {"run.stop_after=4"});
  EXPECT_EQ(manifest("out/checkpoints/step_00000004").sequences, 16);
  const std::vector<std::string> child = {"checkpoint.restart=out/checkpoints", "checkpoint.allow_changes=true",
                                          "output.dir=child", "data.batch=8"};
  expect_ends(75, with(child, {"run.stop_after=2"}));
  EXPECT_EQ(manifest("child/checkpoints/step_00000006").sequences, 32);
  expect_ends(0, child);
  EXPECT_EQ(manifest("child/checkpoints/step_00000010").sequences, 64);
}

std::vector<double> losses(const fs::path& metrics) {
  std::vector<double> values;
  std::istringstream lines(test::read_bytes(metrics));
  for (std::string line; std::getline(lines, line);) values.push_back(json::parse(line)["loss"]);
  return values;
}

/// What commit 6dec955 wrote: it is verified, compared and goes on as the same training.
TEST_F(EarlyFormat, GoesOn) {
  const fs::path stored = fs::path(std::getenv("SHARD8_SOURCES")) / "tests/restart/format_1";
  fs::copy(stored / "run", at("out"), fs::copy_options::recursive);
  fs::copy_file(stored / "deck.yaml", at("deck.yaml"), fs::copy_options::overwrite_existing);
  const auto old = manifest("out/checkpoints/step_00000004");
  ASSERT_EQ(old.format, 1);
  EXPECT_EQ(old.sequences, 16);
  const std::string program = std::getenv("SHARD8_PROGRAM");
  const auto command = [&](const std::string& words) {
    return std::system(fmt::format("cd {} && {} {} >log 2>&1", folder_.path(), program, words).c_str());
  };
  EXPECT_EQ(command("ckpt verify out"), 0) << test::read_bytes(at("log"));
  // It knows none of these keys: its heads are hidden / heads wide, its queries and keys are not normalised, and it has
  // no experts.
  const auto other = test::run_program(
      {.folder = folder_.path(), .ranks = 2, .arguments = {"model.head_dim=4", "model.qk_norm=true", "moe.experts=8"}});
  EXPECT_EQ(other.code, 4) << other.output;
  for (const char* line : {"  model.head_dim: 8 in the checkpoint, 4 in this deck\n",
                           "  model.qk_norm: false in the checkpoint, true in this deck\n",
                           "  moe.experts: 0 in the checkpoint, 8 in this deck\n"})
    EXPECT_NE(other.output.find(line), std::string::npos) << other.output;
  const auto run = test::run_program({.folder = folder_.path(), .ranks = 2, .arguments = {}});
  ASSERT_EQ(run.code, 0) << run.output;
  EXPECT_NE(run.output.find("identity   training " + old.run + "\n"), std::string::npos) << run.output;
  const auto next = manifest("out/checkpoints/step_00000008");
  EXPECT_EQ(next.run, old.run);
  EXPECT_EQ(next.format, 2);
  EXPECT_EQ(next.sequences, 32);
  const auto got = losses(at("out/metrics.jsonl")), wanted = losses(stored / "whole.jsonl");
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t s = 0; s < got.size(); ++s) EXPECT_NEAR(got[s] / wanted[s], 1, 2e-6) << "step " << s;
  EXPECT_TRUE(fs::exists(at("out/summary.leg_1.json")));
  EXPECT_EQ(command("compare out/summary.leg_1.json out/summary.json --threshold 1000"), 0)
      << test::read_bytes(at("log"));
}

TEST_F(Held, OutputIsOneRunsAtATime) {
  const std::vector<std::string> endless = {"run.steps=100000", "checkpoint.every=0"};
  test::ProgramRun first({.folder = folder_.path(), .arguments = endless});
  while (!fs::exists(at("out/metrics.jsonl")) && !first.ended())
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  fs::create_directory(at("other"));
  fs::copy_file(at("deck.yaml"), at("other/deck.yaml"));
  fs::copy_file(at("text.txt"), at("other/text.txt"));
  const std::string out = at("out").string();
  const auto second = test::run_program({.folder = at("other"), .arguments = {"output.dir=" + out}});
  EXPECT_EQ(second.code, 4) << second.output;
  EXPECT_NE(second.output.find("out/lock': output.dir is in use by process "), std::string::npos) << second.output;
  for (const pid_t rank : first.ranks()) ::kill(rank, SIGKILL);
  first.wait();
  // The dead run's lock blocks nobody.
  expect_ends(75, with(endless, {"run.stop_after=2"}),
              {"of this training, which has no checkpoint, will be written anew"});
}

}  // namespace
}  // namespace shard8
