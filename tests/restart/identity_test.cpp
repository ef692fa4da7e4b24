// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/restart/identity.hpp"

#include <fmt/format.h>

namespace shard8 {
namespace {

class Fork : public Identity {};
class Verdict : public Identity {};
class Anew : public Identity {};
class Requeue : public Identity {};

const std::vector<std::string> kFork = {"checkpoint.restart=out/checkpoints/step_00000006", "optimizer.lr=1e-3",
                                        "checkpoint.allow_changes=true", "checkpoint.keep=1"};

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
// Nobody checked the names in another training's file: they may lead anywhere.
TEST_F(Anew, MovesNothingOutsideOfTheFolder) {
  expect_ends(0, {"run.steps=2"});
  const std::string lines = test::read_bytes(at("out/metrics.jsonl"));
  test::write_bytes(at("kept.jsonl"), lines);
  json training = json::parse(test::read_bytes(at("out/training.json")));
  int changed = 0;
  for (json& key : training["deck"])
    if (key["key"] == "output.metrics" || key["key"] == "output.summary") {
      key["value"] = key["key"] == "output.metrics" ? "../kept.jsonl" : "lock";
      ++changed;
    }
  ASSERT_EQ(changed, 2);
  test::write_bytes(at("out/training.json"), training.dump());
  expect_ends(0, {"run.steps=2", "checkpoint.restart=none", "output.replace=true"}, {"moved to"});
  EXPECT_EQ(test::read_bytes(at("kept.jsonl")), lines);
  EXPECT_EQ(test::read_bytes(at("out/replaced_1/metrics.jsonl")), lines);
}

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

}  // namespace
}  // namespace shard8
