// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <thread>

#include "checkpoint/manifest.hpp"
#include "tests/io/files.hpp"
#include "tests/restart/program.hpp"

// Whose training a run is: docs/checkpoint.md, "Identity". Runs of the program, one rank each.

namespace shard8 {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kDeck = R"(
model:      {arch: llama, hidden: 32, ffn: 64, layers: 1, heads: 2, vocab: 256, seq: 16}
precision:  {compute: fp32}
optimizer:  {lr: 0.003}
data:       {kind: bytes, path: text.txt, batch: 4}
run:        {steps: 10, log_every: 1000}
checkpoint: {every: 2, keep: 5}
)";

class Identity : public testing::Test {
 protected:
  void SetUp() override {
    test::write_bytes(folder_ / "deck.yaml", kDeck);
    std::string text;
    for (int i = 0; i < 4000; ++i) text += static_cast<char>('a' + i * i % 23);
    test::write_bytes(folder_ / "text.txt", text);
  }
  test::ProgramEnd run(std::vector<std::string> arguments, std::function<void()> prepare = {}) const {
    return test::run_program(
        {.folder = folder_.path(), .arguments = std::move(arguments), .prepare = std::move(prepare)});
  }
  void expect_ends(int code, std::vector<std::string> arguments, const std::vector<std::string>& texts = {},
                   std::function<void()> prepare = {}) const {
    const auto end = run(std::move(arguments), std::move(prepare));
    ASSERT_EQ(end.code, code) << end.output;
    for (const std::string& text : texts)
      EXPECT_NE(end.output.find(text), std::string::npos) << "does not say: " << text << "\n" << end.output;
  }
  /// The run ends with this code, says these texts and changes no file.
  void expect_refused(int code, std::vector<std::string> arguments, const std::vector<std::string>& texts) const {
    const auto before = test::digests_of(folder_.path());
    expect_ends(code, std::move(arguments), texts);
    auto after = test::digests_of(folder_.path());
    const auto is_log = [](const auto& one) { return fs::path(one.first).filename() == "output"; };
    std::erase_if(after, is_log);
    auto wanted = before;
    std::erase_if(wanted, is_log);
    EXPECT_EQ(after, wanted);
  }
  fs::path at(const std::string& name) const { return fs::path(folder_.path()) / name; }
  checkpoint::Manifest manifest(const std::string& name) const { return checkpoint::read_manifest(at(name).string()); }
  json summary(const std::string& name) const { return json::parse(test::read_bytes(at(name))); }
  std::set<std::string> names(const std::string& folder) const {
    std::set<std::string> found;
    for (const auto& entry : fs::directory_iterator(at(folder))) found.insert(entry.path().filename().string());
    return found;
  }
  /// The ids in metrics.jsonl, one for each line.
  std::vector<std::string> owners(const std::string& metrics) const {
    std::vector<std::string> ids;
    std::istringstream lines(test::read_bytes(at(metrics)));
    for (std::string line; std::getline(lines, line);) ids.push_back(json::parse(line)["run"]);
    return ids;
  }

  const test::TempFolder folder_;
};

class Fork : public Identity {};
class Verdict : public Identity {};
class Anew : public Identity {};
class Requeue : public Identity {};
class Legs : public Identity {};
class Nearly : public Identity {};
class InputContent : public Identity {};
class Held : public Identity {};
class EarlyFormat : public Identity {};

const std::vector<std::string> kFork = {"checkpoint.restart=out/checkpoints/step_00000006", "optimizer.lr=1e-3",
                                        "checkpoint.allow_changes=true", "checkpoint.keep=1"};

std::vector<std::string> with(std::vector<std::string> some, const std::vector<std::string>& more) {
  some.insert(some.end(), more.begin(), more.end());
  return some;
}

TEST_F(Fork, IsRefusedInTheFolderOfItsParent) {
  expect_ends(0, {});
  expect_refused(2, with(kFork, {"run.stop_after=1"}),
                 {"output.dir 'out' holds other files than its own (metrics.jsonl has steps 0 to 9 of training ",
                  "checkpoint.dir 'out/checkpoints' holds", "set output.dir and checkpoint.dir to other folders",
                  "output.replace to true"});
  expect_refused(2, with(kFork, {"output.dir=child", "checkpoint.dir=out/checkpoints"}), {"set checkpoint.dir to"});
  expect_refused(2, with(kFork, {"checkpoint.dir=child"}), {"set output.dir to"});
  // An older step is a fork, too, with the deck as it is. The latest one is not.
  expect_refused(2, {"checkpoint.restart=out/checkpoints/step_00000006"}, {"a child of "});
}

TEST_F(Fork, HasAnIdOfItsOwnAndLeavesItsParentAlone) {
  expect_ends(0, {});
  const auto parent = manifest("out/checkpoints/step_00000006");
  const auto before = test::digests_of(at("out"));
  expect_ends(0, with(kFork, {"output.dir=child"}), {"a child of " + parent.run + " at step 6"});
  EXPECT_EQ(test::digests_of(at("out")), before);
  const auto child = manifest("child/checkpoints/step_00000010");
  EXPECT_NE(child.run, parent.run);
  EXPECT_EQ(child.parent, (checkpoint::Parent{parent.run, 6}));
  EXPECT_EQ(owners("child/metrics.jsonl"), std::vector<std::string>(4, child.run));
  const json training = summary("child/summary.json")["training"];
  EXPECT_EQ(training["id"], child.run);
  EXPECT_EQ(training["parent"], parent.run);
  EXPECT_EQ(training["parent_step"], 6);
  // The same command goes on with the child.
  expect_ends(0, with(kFork, {"output.dir=child", "run.steps=12", "optimizer.decay_steps=10"}),
              {"restart    from child/checkpoints/step_00000010"});
  EXPECT_EQ(manifest("child/checkpoints/step_00000012").run, child.run);
}

TEST_F(Fork, ReplacesTheFilesOfItsParent) {
  expect_ends(0, {});
  const auto parent = manifest("out/checkpoints/step_00000006");
  const auto fork = with(kFork, {"output.replace=true"});
  expect_ends(75, with(fork, {"run.stop_after=1"}), {"moved to out/replaced_1", "moved to out/checkpoints/replaced_1"});
  EXPECT_EQ(names("out/checkpoints/replaced_1"),
            (std::set<std::string>{"latest", "step_00000002", "step_00000004", "step_00000006", "step_00000008",
                                   "step_00000010"}));
  EXPECT_EQ(owners("out/replaced_1/metrics.jsonl"), std::vector<std::string>(10, parent.run));
  EXPECT_TRUE(fs::exists(at("out/replaced_1/summary.json")));
  // The checkpoint that the command names is not there any more; the training goes on from its own.
  const auto child = manifest("out/checkpoints/step_00000007");
  expect_ends(0, fork, {"restart    from out/checkpoints/step_00000007"});
  EXPECT_EQ(manifest("out/checkpoints/step_00000010").run, child.run);
  EXPECT_EQ(owners("out/metrics.jsonl"), std::vector<std::string>(4, child.run));
  EXPECT_FALSE(fs::exists(at("out/replaced_2")));
}

/// By whatever path it is named.
TEST_F(Fork, OfAnOlderCheckpointBehindALink) {
  expect_ends(0, {});
  fs::create_symlink("out/checkpoints/step_00000004", at("link"));
  for (const char* const path : {"link", "out/checkpoints/step_00000004/.", "out/checkpoints/step_00000004/"})
    expect_ends(
        75, {"output.dir=child", std::string("checkpoint.restart=") + path, "run.stop_after=1", "output.replace=true"},
        {"a child of "});
  // Where its training's checkpoints are moved aside, the record names the folder to which it went.
  expect_ends(75, {"checkpoint.restart=link", "run.stop_after=1", "output.replace=true"},
              {"moved to out/checkpoints/"});
  EXPECT_EQ(summary("out/training.json")["origin"], "out/checkpoints/replaced_1/step_00000004");
}

TEST_F(Anew, ReplacesTheFilesThatTheOtherDeckNames) {
  expect_ends(0, {"output.trace=tr.json", "output.summary=s.json", "output.metrics=m.jsonl", "checkpoint.every=0"});
  const std::string trace = test::read_bytes(at("out/tr.rank0000.json"));
  const auto end = run({"--restart", "none", "output.replace=true", "run.stop_after=2", "output.trace=tr.json",
                        "verify.gold=out/m.jsonl", "verify.tolerance=1"});
  EXPECT_EQ(end.code, 75) << end.output;
  EXPECT_EQ(test::read_bytes(at("out/replaced_1/tr.rank0000.json")), trace);
  for (const char* const name : {"s.json", "timing.csv", "ranks.csv", "training.json"})
    EXPECT_TRUE(fs::exists(at(std::string("out/replaced_1/") + name))) << name;
  EXPECT_FALSE(fs::exists(at("out/s.json")));
  EXPECT_TRUE(fs::exists(at("out/m.jsonl")));  // the run reads it
  expect_ends(0, {"output.summary=s.json"});
  EXPECT_FALSE(fs::exists(at("out/s.leg_1.json")));
}

/// A summary says whose it is.
TEST_F(Anew, SeesTheSummaryOfAnother) {
  expect_ends(75, {"run.stop_after=2"});
  expect_ends(0, {"output.dir=other"});
  const std::string summary = test::read_bytes(at("other/summary.json"));
  test::write_bytes(at("out/s.json"), summary);
  expect_refused(2, {"output.summary=s.json"}, {"s.json is of training "});
  expect_ends(0, {"output.summary=s.json", "output.replace=true"}, {"s.json of out moved to out/replaced_1"});
  EXPECT_EQ(test::read_bytes(at("out/replaced_1/s.json")), summary);
  EXPECT_FALSE(fs::exists(at("out/s.leg_1.json")));
}

TEST_F(Fork, OfTheLatestCheckpointKeepsTheId) {
  expect_ends(75, {"run.stop_after=4"});
  const auto first = manifest("out/checkpoints/step_00000004");
  expect_ends(0, {"checkpoint.restart=out/checkpoints/step_00000004", "output.dir=moved", "fsdp.prefetch=0"},
              {"identity   training " + first.run + "\n"});
  EXPECT_EQ(manifest("moved/checkpoints/step_00000010").run, first.run);
}

TEST_F(Verdict, OfAFailedTrainingStaysFailed) {
  expect_ends(6, {"verify.final_loss_max=0.5"});
  expect_ends(6, {"verify.final_loss_max=0.5"}, {"nothing to train", "VERIFICATION: FAILED: final loss "});
  expect_ends(0, {"verify.final_loss_max=50"}, {"nothing to train", "VERIFICATION: PASSED"});
  // The losses are not in this folder; the last one is in the checkpoint.
  const std::vector<std::string> elsewhere = {"output.dir=new", "checkpoint.dir=out/checkpoints"};
  expect_ends(6, with(elsewhere, {"verify.final_loss_max=0.5"}), {"VERIFICATION: FAILED"});
}

/// Recorded losses of a validation are judged where the same sequences would be validated, wherever they lie.
TEST_F(Verdict, OfOtherValidationDataIsNotTakenOver) {
  const std::string text = test::read_bytes(at("text.txt"));
  test::write_bytes(at("v.txt"), text.substr(0, 1000));
  test::write_bytes(at("same.txt"), text.substr(0, 1000));
  test::write_bytes(at("other.txt"), text.substr(1, 1000));
  const std::vector<std::string> judged = {"run.validate_every=2", "verify.validation_loss_max=50"};
  const auto of = [&](const std::string& file) { return with(judged, {"data.validation_path=" + file}); };
  expect_ends(0, of("v.txt"), {"VERIFICATION: PASSED"});
  const auto m = manifest("out/checkpoints/step_00000010");
  ASSERT_TRUE(m.validation);
  EXPECT_EQ(m.validation->length, 1000U);
  EXPECT_EQ(m.validation->samples, 62);
  EXPECT_EQ(summary("out/training.json")["validation"]["digest"], m.validation->digest);
  expect_ends(0, of("same.txt"), {"nothing to train", "VERIFICATION: PASSED"});
  const std::string other =
      "VERIFICATION: FAILED: the validation loss behind step 9, the last one, was recorded on other";
  expect_ends(6, of("other.txt"), {"nothing to train", other, "changed    content of data.validation_path: 1000 elem"});
  expect_ends(6, with(of("v.txt"), {"run.validate_batches=2"}), {other});
  test::write_bytes(at("v.txt"), text.substr(2, 1000));
  expect_ends(6, of("v.txt"), {other});
  // A share of the data has their content, and the sequences of the share.
  const std::vector<std::string> share = with(judged, {"output.dir=share", "data.validation=0.1"});
  expect_ends(0, share);
  EXPECT_EQ(manifest("share/checkpoints/step_00000010").validation->samples, 25);
  expect_ends(0, share, {"nothing to train", "VERIFICATION: PASSED"});
}

TEST_F(Verdict, IsThatOfAllLegs) {
  expect_ends(0, {});
  std::string gold = test::read_bytes(at("out/metrics.jsonl"));
  test::write_bytes(at("gold.jsonl"), gold);
  const std::vector<std::string> judged = {"output.dir=two", "verify.gold=gold.jsonl", "verify.tolerance=0"};
  expect_ends(75, with(judged, {"run.stop_after=4"}));
  // A loss of the first leg that differs is found at the end of the second one.
  const auto loss = gold.find("\"loss\":") + 7;
  gold.replace(loss, gold.find(',', loss) - loss, "1.0");
  test::write_bytes(at("gold.jsonl"), gold);
  expect_ends(6, judged, {"of step 0 differs from 1 in gold.jsonl"});
}

TEST_F(Anew, IsRefusedInAUsedFolder) {
  expect_ends(0, {});
  expect_refused(2, {"--restart", "none"}, {"this run is a new training, and output.dir 'out' holds"});
  expect_refused(2, {"--restart", "none", "checkpoint.every=0"}, {"set output.dir to another folder"});
  const auto before = owners("out/metrics.jsonl");
  expect_ends(75, {"--restart", "none", "run.stop_after=3", "output.replace=true"}, {"moved to out/replaced_1"});
  EXPECT_EQ(owners("out/replaced_1/metrics.jsonl"), before);
  const auto after = owners("out/metrics.jsonl");
  EXPECT_EQ(after.size(), 3U);
  EXPECT_NE(after[0], before[0]);
}

/// Without checkpoints, a finished training is another one's, and one that was cut off begins again.
TEST_F(Anew, WithoutCheckpoints) {
  const std::vector<std::string> none = {"checkpoint.every=0", "output.dir=plain"};
  expect_ends(0, none);
  expect_refused(2, none, {"metrics.jsonl has steps 0 to 9 of training "});
  const std::vector<std::string> killed = {"checkpoint.every=0", "output.dir=killed"};
  expect_ends(0, killed);
  std::string file = test::read_bytes(at("killed/training.json"));
  file.replace(file.find("\"finished\": true"), 16, "\"finished\": false");
  test::write_bytes(at("killed/training.json"), file);
  const auto before = owners("killed/metrics.jsonl");
  expect_ends(0, killed, {"10 lines of this training, which has no checkpoint, will be written anew"});
  EXPECT_EQ(owners("killed/metrics.jsonl"), before);
  // `none` that was cut off before its first checkpoint begins again, too; with another text it would be another one.
  const std::vector<std::string> named = {"checkpoint.every=0", "output.dir=named", "--restart", "none"};
  expect_ends(0, named);
  file = test::read_bytes(at("named/training.json"));
  file.replace(file.find("\"finished\": true"), 16, "\"finished\": false");
  test::write_bytes(at("named/training.json"), file);
  const std::string text = test::read_bytes(at("text.txt"));
  test::write_bytes(at("text.txt"), text + "more");
  expect_refused(2, named, {"this run is a new training"});
  test::write_bytes(at("text.txt"), text);
  const auto first = owners("named/metrics.jsonl");
  expect_ends(0, named, {"will be written anew"});
  EXPECT_EQ(owners("named/metrics.jsonl"), first);
}

void requeued() { ::setenv("SLURM_RESTART_COUNT", "1", 1); }

TEST_F(Requeue, GoesOnWithWhatTheFirstLegBegan) {
  expect_ends(75, {"--restart", "none", "run.stop_after=4"});
  const auto first = manifest("out/checkpoints/step_00000004");
  expect_ends(0, {"--restart", "none"}, {"restart    from out/checkpoints/step_00000004"}, requeued);
  EXPECT_EQ(owners("out/metrics.jsonl"), std::vector<std::string>(10, first.run));
  const auto fork = with(kFork, {"output.dir=child"});
  expect_ends(75, with(fork, {"run.stop_after=1"}));
  expect_ends(0, fork, {"restart    from child/checkpoints/step_00000007"});
  expect_ends(75, {"--restart", "none", "run.stop_after=2", "output.replace=true"}, {"replaced_1"});
  expect_ends(0, {"--restart", "none", "output.replace=true"}, {"restart    from out/checkpoints/step_00000002"},
              requeued);
  EXPECT_FALSE(fs::exists(at("out/replaced_2")));
}

TEST_F(Requeue, FindsNothingToGoOnWith) {
  expect_ends(75, {"run.stop_after=4"});
  const std::vector<std::string> plain = {"checkpoint.every=0", "output.dir=plain"};
  expect_ends(0, plain);
  const auto again = with(plain, {"--restart", "out/checkpoints/step_00000004", "output.replace=true"});
  const auto end = run(again, requeued);
  EXPECT_EQ(end.code, 2) << end.output;
  EXPECT_NE(end.output.find("output.replace acts when a job starts first, and this is a later start"),
            std::string::npos)
      << end.output;
  EXPECT_FALSE(fs::exists(at("plain/replaced_1")));
  expect_ends(0, again, {"moved to plain/replaced_1", "restart    from out/checkpoints/step_00000004"});
}

TEST_F(Anew, MovesLinesThatCannotBeRead) {
  expect_ends(0, {"checkpoint.every=0"});
  test::write_bytes(at("out/metrics.jsonl"), "{\"step\": 0, \"lo");
  expect_ends(0, {"checkpoint.every=0", "output.replace=true"}, {"metrics.jsonl of out moved to out/replaced_1"});
  EXPECT_EQ(test::read_bytes(at("out/replaced_1/metrics.jsonl")), "{\"step\": 0, \"lo");
}

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
  expect_refused(4, {"model.init_file=third/checkpoints"}, {"content of model.init_file: "});
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
