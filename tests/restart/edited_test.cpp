// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "tests/io/files.hpp"
#include "tests/restart/program.hpp"

// Restarts with a deck that was edited, as users run the program.

namespace shard8 {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDeck = R"(
model:      {arch: llama, hidden: 32, ffn: 64, layers: 2, heads: 2, vocab: 64, seq: 16}
mesh:       {shard: 2}
precision:  {compute: bf16}
optimizer:  {lr: 0.003, warmup: 2}
data:       {kind: synthetic, batch: 4}
run:        {steps: 6, log_every: 1000}
checkpoint: {every: 3}
)";

/// A run of two ranks that stopped after 3 of 6 steps. Each test has a copy.
class EditedDeck : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    original_ = new test::TempFolder;
    test::write_bytes(*original_ / "deck.yaml", kDeck);
    const auto first = test::run_program({.folder = original_->path(), .ranks = 2, .arguments = {"run.stop_after=3"}});
    ASSERT_EQ(first.code, 75) << first.output;
  }
  static void TearDownTestSuite() {
    delete original_;
    original_ = nullptr;
  }
  void SetUp() override {
    ASSERT_TRUE(original_ != nullptr && !HasFailure());
    fs::copy(original_->path(), folder_.path(), fs::copy_options::recursive);
  }

  test::ProgramEnd run(std::vector<std::string> arguments, int ranks = 2) const {
    return test::run_program({.folder = folder_.path(), .ranks = ranks, .arguments = std::move(arguments)});
  }
  fs::path out() const { return folder_.path() + "/out"; }

  static void expect_says(const test::ProgramEnd& end, const std::vector<std::string>& texts) {
    for (const std::string& text : texts)
      EXPECT_NE(end.output.find(text), std::string::npos) << "does not say: " << text << "\n" << end.output;
  }
  /// The run is refused, and changes no file.
  void expect_refused(const std::vector<std::string>& arguments, const std::vector<std::string>& texts,
                      int code = 4) const {
    const auto before = test::digests_of(out());
    const auto end = run(arguments);
    EXPECT_EQ(end.code, code) << end.output;
    expect_says(end, texts);
    EXPECT_EQ(test::digests_of(out()), before);
  }
  /// The run goes on from step 3 to the end.
  void expect_goes_on(const std::vector<std::string>& arguments, const std::vector<std::string>& texts,
                      int ranks = 2) const {
    const auto end = run(arguments, ranks);
    EXPECT_EQ(end.code, 0) << end.output;
    EXPECT_EQ(fs::path(test::restarted_from(end.output)).filename(), "step_00000003") << end.output;
    expect_says(end, texts);
  }

  const test::TempFolder folder_;

 private:
  static test::TempFolder* original_;
};
test::TempFolder* EditedDeck::original_ = nullptr;

/// `ckpt verify` derives FP8 weights, scales and the newest amaxes from the masters.
void expect_verifies(const std::string& checkpoint) {
  const std::string command = std::string(std::getenv("SHARD8_PROGRAM")) + " ckpt verify " + checkpoint;
  EXPECT_EQ(std::system(command.c_str()), 0);
}

class OtherModel : public EditedDeck {};
class MayChange : public EditedDeck {};
class NeedsPermission : public EditedDeck {};
class Converted : public EditedDeck {};
class Schedule : public EditedDeck {};

TEST_F(OtherModel, IsRefusedWithAndWithoutPermission) {
  for (const auto& [key, before, now] :
       {std::array{"model.hidden", "32", "64"}, std::array{"model.layers", "2", "1"},
        std::array{"model.heads", "2", "4"}, std::array{"model.vocab", "64", "65"}, std::array{"model.ffn", "64", "32"},
        std::array{"model.tie_embeddings", "false", "true"}, std::array{"model.arch", "llama", "gpt2"},
        std::array{"model.head_dim", "16", "8"}, std::array{"model.qk_norm", "false", "true"},
        std::array{"moe.experts", "0", "8"}}) {
    SCOPED_TRACE(key);
    for (const char* allow : {"false", "true"})
      expect_refused({fmt::format("{}={}", key, now), fmt::format("checkpoint.allow_changes={}", allow)},
                     {"out/checkpoints/step_00000003 is one of another model:\n",
                      fmt::format("  {}: {} in the checkpoint, {} in this deck\n", key, before, now),
                      "set checkpoint.restart to none, and output.dir and checkpoint.dir to other folders"});
  }
}

TEST_F(MayChange, WithoutPermission) {
  expect_goes_on({"mesh.shard=1", "mesh.tensor=2", "fsdp.prefetch=2", "model.recompute=full", "data.micro_batch=1",
                  "output.dir=elsewhere", "checkpoint.dir=out/checkpoints", "checkpoint.keep=3",
                  "checkpoint.files=node", "run.steps=7", "optimizer.decay_steps=6", "verify.final_loss_max=100"},
                 {"changed    mesh.shard: 2 in the checkpoint, 1 in this deck\n",
                  "changed    mesh.tensor: 1 in the checkpoint, 2 in this deck\n",
                  "changed    fsdp.prefetch: 1 in the checkpoint, 2 in this deck\n",
                  "changed    output.dir: out in the checkpoint, elsewhere in this deck\n",
                  "changed    checkpoint.files: rank in the checkpoint, node in this deck\n",
                  "changed    run.steps: 6 in the checkpoint, 7 in this deck\n"});
}

TEST_F(MayChange, NothingIsSaidWhereNothingDiffers) {
  const auto end = run({"run.stop_after=3"});
  EXPECT_EQ(end.output.find("\nchanged"), std::string::npos) << end.output;
}

/// run.timing_skip is not in the deck: its default follows from run.steps, and nobody has edited it.
TEST_F(MayChange, DefaultsThatFollowAreNoChange) {
  const auto end = run({"run.steps=2"});
  EXPECT_EQ(end.code, 0) << end.output;
  expect_says(end, {"step 3, beyond run.steps = 2, ", "run.steps: 6 in the checkpoint, 2 in this deck"});
  EXPECT_EQ(end.output.find("run.timing_skip"), std::string::npos) << end.output;
}

TEST_F(NeedsPermission, ToChangeWhatIsTrained) {
  for (const auto& [key, before, now] :
       {std::array{"optimizer.lr", "0.003", "0.002"}, std::array{"optimizer.clip", "1", "2"},
        std::array{"optimizer.moments", "fp32", "bf16"}, std::array{"optimizer.master", "fp32", "bf16_remainder"},
        std::array{"data.seed", "1234", "7"}, std::array{"data.batch", "4", "6"},
        std::array{"fp8.recipe", "none", "current"}, std::array{"precision.compute", "bf16", "fp32"},
        std::array{"optimizer.decay_steps", "6", "9"}}) {
    SCOPED_TRACE(key);
    const std::string change = fmt::format("{}={}", key, now);
    const std::string said = fmt::format("{}: {} in the checkpoint, {} in this deck\n", key, before, now);
    expect_refused({change}, {"out/checkpoints/step_00000003 was written with another deck:\n", "  " + said,
                              "to train on all the same, set checkpoint.allow_changes to true"});
    // The changed deck would be another training: not in the folder of the first one.
    expect_refused({change, "checkpoint.allow_changes=true", "checkpoint.every=0"},
                   {"set output.dir and checkpoint.dir to other folders"}, 2);
    expect_goes_on({change, "checkpoint.allow_changes=true", "checkpoint.every=0",
                    "output.dir=with_" + std::string(key), "checkpoint.restart=out/checkpoints"},
                   {"changed    " + said});
  }
}

/// Each of the changed forms trains on, and a checkpoint of it is one of its own kind.
TEST_F(Converted, AndTrainedOn) {
  const std::vector<std::string> fp8 = {"converted  weights in FP8 are cast from the masters"};
  struct Case {
    std::vector<std::string> arguments;
    std::vector<std::string> says;
    std::string tensor, dtype;  ///< of the checkpoint at the end
  };
  const std::string q = "model.layers.0.self_attn.q_proj.weight, ";
  for (const Case& c :
       {Case{{"optimizer.moments=bf16"}, {}, q + "exp_avg", "bf16"},
        Case{{"optimizer.master=bf16_remainder"}, {}, q + "master_remainder", "i16"},
        Case{{"fp8.recipe=current"}, fp8, q + "fp8_rowwise", "e4m3"},
        Case{{"fp8.recipe=delayed"}, fp8, "scaling_state, fp8_amax_history", "i32"},
        Case{{"fp8.recipe=mxfp8", "model.seq=16", "data.micro_batch=2"}, fp8, q + "fp8_columnwise", "e4m3"}}) {
    SCOPED_TRACE(c.arguments[0]);
    for (const char* name : {"there", "back"}) fs::remove_all(folder_ / name);
    std::vector<std::string> arguments = c.arguments;
    arguments.insert(arguments.end(),
                     {"checkpoint.allow_changes=true", "checkpoint.restart=out/checkpoints", "output.dir=there"});
    expect_goes_on(arguments, c.says);
    const auto tensors = test::tensors_of(folder_ / "there/checkpoints/step_00000006");
    ASSERT_TRUE(tensors.contains(c.tensor)) << c.tensor;
    expect_verifies(folder_ / "there/checkpoints/step_00000006");
    EXPECT_TRUE(tensors.at(c.tensor).starts_with(c.dtype)) << tensors.at(c.tensor);
    // And back.
    const auto back = run({"checkpoint.allow_changes=true", "checkpoint.restart=there/checkpoints", "output.dir=back",
                           "run.steps=8", "optimizer.decay_steps=6"});
    EXPECT_EQ(back.code, 0) << back.output;
    EXPECT_EQ(test::restarted_from(back.output), "there/checkpoints/step_00000006") << back.output;
    for (const std::string& line : test::metrics_of(folder_ / "back/metrics.jsonl"))
      EXPECT_EQ(line.find("nan"), std::string::npos) << line;
  }
}

std::vector<double> learning_rates(const fs::path& metrics) {
  std::vector<double> rates;
  for (const std::string& line : test::metrics_of(metrics)) {
    const auto at = line.find("\"lr\":");
    rates.push_back(std::stod(line.substr(at + 5)));
  }
  return rates;
}

/// 20 of 20 steps, then run.steps = 40: the schedule is that of 20 steps, also in the restart after that.
TEST_F(Schedule, ADefaultIsThatOfTheCheckpoint) {
  const std::vector<std::string> common = {"output.dir=long", "optimizer.min_lr=0.0001"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), common.begin(), common.end());
    return run(more);
  };
  const auto first = with({"run.steps=20", "checkpoint.every=10"});
  ASSERT_EQ(first.code, 0) << first.output;
  const auto second = with({"run.steps=40", "checkpoint.every=10", "run.stop_after=8"});
  ASSERT_EQ(second.code, 75) << second.output;
  const std::string said = "schedule   decays over 20 steps, as in the checkpoint; set optimizer.decay_steps";
  expect_says(second, {said, "training   40 steps, lr 0.003", "at step 20\n"});
  const auto third = with({"run.steps=40", "checkpoint.every=10"});
  ASSERT_EQ(third.code, 0) << third.output;
  expect_says(third, {said});
  const auto rates = learning_rates(folder_ / "long/metrics.jsonl");
  ASSERT_EQ(rates.size(), 40U);
  const double pi = std::acos(-1.0);
  for (std::size_t s = 0; s < rates.size(); ++s) {
    const double done = (static_cast<double>(s) - 2) / 18;
    const double expected = s < 2    ? 0.003 * (static_cast<double>(s) + 1) / 2
                            : s < 20 ? 0.0001 + (0.003 - 0.0001) / 2 * (1 + std::cos(pi * done))
                                     : 0.0001;
    EXPECT_NEAR(rates[s], expected, 1e-12) << "step " << s;
  }
}

/// A run that is longer from the middle on keeps the schedule with which it began.
TEST_F(Schedule, DoesNotBend) {
  const auto whole = run({"output.dir=whole", "checkpoint.restart=none", "run.steps=6"});
  ASSERT_EQ(whole.code, 0) << whole.output;
  expect_goes_on({"run.steps=12"},
                 {"schedule   decays over 6 steps, as in the checkpoint; set optimizer.decay_steps to "
                  "change it: steps 7 to 12 have the learning rate optimizer.min_lr, 0"});
  const auto rates = learning_rates(out() / "metrics.jsonl"),
             expected = learning_rates(folder_ / "whole/metrics.jsonl");
  ASSERT_EQ(rates.size(), 12U);
  for (std::size_t s = 0; s < expected.size(); ++s) EXPECT_EQ(rates[s], expected[s]) << "step " << s;
}

TEST_F(Schedule, AWarmupBeyondItIsRefused) {
  expect_refused(
      {"optimizer.warmup=8", "run.steps=12", "checkpoint.allow_changes=true"},
      {"optimizer.warmup = 8 is not less than 6, the decay_steps of checkpoint ", "set optimizer.decay_steps"});
}

}  // namespace
}  // namespace shard8
