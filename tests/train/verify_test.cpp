// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "train/verify.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <limits>

#include "base/error.hpp"

namespace shard8 {
namespace {

using Status = profile::Verification::Status;
using ::testing::Test;

struct Loss {
  std::int64_t step = 0;
  double loss = 0;
};

std::vector<Loss> losses(std::initializer_list<double> values) {
  std::vector<Loss> results;
  for (const double loss : values) results.push_back({static_cast<std::int64_t>(results.size()), loss});
  return results;
}

/// The verdict on a training whose last step is that of the last loss.
profile::Verification judge(const deck::VerifyConfig& config, const std::vector<Loss>& results,
                            std::optional<double> entropy, const std::vector<double>& gold, bool finished = true) {
  train::LossJudge judge(config, gold);
  for (const Loss& one : results) judge.add(one.step, one.loss);
  return judge.verdict(results.back().step + 1, entropy, finished);
}

const std::string kHint = "; for limits that only a longer run reaches set verify.min_steps";

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(Verify, NothingConfigured) {
  const auto v = judge({}, losses({3, 2}), std::nullopt, {});
  EXPECT_EQ(v.status, Status::not_configured);
  EXPECT_EQ(v.why, "");
}

TEST(Verify, FinalLossBounds) {
  deck::VerifyConfig config;
  config.final_loss_max = 2.5;
  config.final_loss_min = 1.5;
  EXPECT_EQ(judge(config, losses({9, 2.5}), {}, {}).status, Status::passed);
  EXPECT_EQ(judge(config, losses({9, 1.5}), {}, {}).status, Status::passed);
  const auto above = judge(config, losses({2, 2.6}), {}, {});
  EXPECT_EQ(above.status, Status::failed);
  EXPECT_EQ(above.why, "final loss 2.6 is above verify.final_loss_max 2.5" + kHint);
  const auto below = judge(config, losses({2, 1.25}), {}, {});
  EXPECT_EQ(below.status, Status::failed);
  EXPECT_EQ(below.why, "final loss 1.25 is below verify.final_loss_min 1.5" + kHint);
}

// The limits are for runs of verify.min_steps steps. Losses of a gold file are judged at any length.
TEST(Verify, AShortRunIsNotJudgedByItsFinalLoss) {
  deck::VerifyConfig config;
  config.final_loss_max = 2.5;
  config.unigram_ratio_max = 0.8;
  config.min_steps = 3;
  const auto two = judge(config, losses({9, 8}), 3.0, {});
  EXPECT_EQ(two.status, Status::not_checked);
  EXPECT_EQ(two.why, "run.steps = 2 is less than verify.min_steps = 3: the final loss is not judged");
  const auto three = judge(config, losses({9, 8, 8}), 3.0, {});
  EXPECT_EQ(three.status, Status::failed);
  EXPECT_FALSE(has(three.why, "min_steps")) << three.why;
  EXPECT_EQ(judge(config, losses({9, 8, 2}), 3.0, {}).status, Status::passed);
  EXPECT_EQ(judge(config, losses({9, 8}), 3.0, {}, false).status, Status::not_reached);
  // A run that goes on at step 2 and trains one step has three.
  std::vector<Loss> last = losses({8});
  last.front().step = 2;
  EXPECT_EQ(judge(config, last, 3.0, {}).status, Status::failed);
  config.gold = "gold.jsonl";
  EXPECT_EQ(judge(config, losses({9, 8}), 3.0, std::vector<double>{9, 8}).status, Status::not_checked);
  EXPECT_EQ(judge(config, losses({9, 8}), 3.0, std::vector<double>{9, 7}).status, Status::failed);
  EXPECT_EQ(judge(config, losses({9, 8}), 3.0, std::vector<double>{9, 8, 7}).status, Status::failed);
  deck::VerifyConfig gold_alone;
  gold_alone.gold = "gold.jsonl";
  gold_alone.min_steps = 3;
  EXPECT_EQ(judge(gold_alone, losses({9, 8}), {}, std::vector<double>{9, 8}).status, Status::passed);
}

// Of a run that stopped the final loss is not judged, the steps it has trained are.
TEST(Verify, ARunThatStoppedIsNotJudgedByItsFinalLoss) {
  deck::VerifyConfig config;
  config.final_loss_max = 2.5;
  EXPECT_EQ(judge(config, losses({9, 2}), {}, {}, false).status, Status::not_reached);
  EXPECT_EQ(judge(config, losses({9, 8}), {}, {}, false).status, Status::not_reached);
  config.gold = "gold.jsonl";
  config.tolerance = 1e-3;
  const std::vector<double> gold{9, 8, 2};
  EXPECT_EQ(judge(config, losses({9, 8}), {}, gold, false).status, Status::not_reached);
  const auto far = judge(config, losses({9, 7}), {}, gold, false);
  EXPECT_EQ(far.status, Status::failed);
  EXPECT_TRUE(has(far.why, "loss 7 of step 1 differs")) << far.why;
  EXPECT_FALSE(has(far.why, "final")) << far.why;
  EXPECT_EQ(judge(config, losses({9, 8, 2, 1}), {}, gold, false).status, Status::failed);
  EXPECT_EQ(judge({}, losses({9}), {}, {}, false).status, Status::not_configured);
}

TEST(Verify, NotANumberFailsEverything) {
  deck::VerifyConfig config;
  config.final_loss_max = 2.5;
  config.final_loss_min = 1.5;
  config.unigram_ratio_max = 0.8;
  const auto v = judge(config, losses({std::numeric_limits<double>::quiet_NaN()}), 3.0, {});
  EXPECT_EQ(v.status, Status::failed);
  EXPECT_TRUE(has(v.why, "final_loss_max")) << v.why;
  EXPECT_TRUE(has(v.why, "final_loss_min")) << v.why;
  EXPECT_TRUE(has(v.why, "unigram")) << v.why;
}

TEST(Verify, UnigramRatio) {
  deck::VerifyConfig config;
  config.unigram_ratio_max = 0.8;
  EXPECT_EQ(judge(config, losses({2.4}), 3.0, {}).status, Status::passed);
  const auto v = judge(config, losses({2.7}), 3.0, {});
  EXPECT_EQ(v.status, Status::failed);
  EXPECT_EQ(v.why, "final loss 2.7 is 0.900 of the data's unigram entropy 3, allowed is 0.800" + kHint);
  EXPECT_THROW(judge(config, losses({2.7}), std::nullopt, {}), base::Error);
}

TEST(Verify, Gold) {
  deck::VerifyConfig config;
  config.gold = "gold.jsonl";
  config.tolerance = 1e-3;
  const std::vector<double> gold{4, 2};
  EXPECT_EQ(judge(config, losses({4.003, 1.999}), {}, gold).status, Status::passed);
  const auto far = judge(config, losses({4.003, 1.99}), {}, gold);
  EXPECT_EQ(far.status, Status::failed);
  EXPECT_TRUE(has(far.why, "loss 1.99 of step 1 differs from 2 in gold.jsonl by 5.00e-03 relative")) << far.why;
  const auto count = judge(config, losses({4}), {}, gold);
  EXPECT_EQ(count.status, Status::failed);
  EXPECT_EQ(count.why, "gold.jsonl has steps 0 to 1, the run ends with step 0");
}

// What earlier legs recorded counts as well, whichever way they come.
TEST(Verify, AllLegsAreJudged) {
  deck::VerifyConfig config;
  config.gold = "gold.jsonl";
  const std::vector<double> gold{4, 3, 2, 1};
  const auto early = judge(config, {{0, 4}, {1, 9}, {2, 2}, {3, 1}}, {}, gold);
  EXPECT_EQ(early.status, Status::failed);
  EXPECT_TRUE(has(early.why, "loss 9 of step 1 differs from 3")) << early.why;
  const auto two = judge(config, {{2, 7}, {0, 4}, {1, 9}, {3, 1}}, {}, gold);
  EXPECT_TRUE(has(two.why, "loss 9 of step 1 differs from 3")) << "the first one is named: " << two.why;
}

// A final loss that nobody has recorded passes nothing.
TEST(Verify, AMissingFinalLossFails) {
  deck::VerifyConfig config;
  config.final_loss_max = 9;
  const std::vector<double> none;
  train::LossJudge judge(config, none);
  EXPECT_EQ(judge.verdict(4, {}, true).status, Status::failed);
  judge.add(2, 1.0);
  EXPECT_TRUE(has(judge.verdict(4, {}, true).why, "the loss of step 3, the last one, is not recorded"));
  judge.add(3, 1.0);
  EXPECT_EQ(judge.verdict(4, {}, true).status, Status::passed);
}

// A run that began at step 5 is compared with steps 5, 6, ... of the gold file.
TEST(Verify, GoldIsComparedByStepNumber) {
  deck::VerifyConfig config;
  config.gold = "gold.jsonl";
  const std::vector<double> gold{9, 8, 7, 6, 5, 4, 3};
  std::vector<Loss> results = losses({4, 3});
  for (auto& result : results) result.step += 5;
  EXPECT_EQ(judge(config, results, {}, gold).status, Status::passed);
  results.front().loss = 9;
  const auto far = judge(config, results, {}, gold);
  EXPECT_TRUE(has(far.why, "loss 9 of step 5 differs from 4 in gold.jsonl")) << far.why;
  results.pop_back();
  EXPECT_EQ(judge(config, results, {}, gold).why, "gold.jsonl has steps 0 to 6, the run ends with step 5");
}

TEST(Verify, GoldBitForBit) {
  deck::VerifyConfig config;
  config.gold = "gold.jsonl";
  const std::vector<double> gold{4};
  EXPECT_EQ(judge(config, losses({4}), {}, gold).status, Status::passed);
  EXPECT_EQ(judge(config, losses({std::nextafter(4.0, 5.0)}), {}, gold).status, Status::failed);
  EXPECT_EQ(judge(config, losses({std::numeric_limits<double>::quiet_NaN()}), {}, gold).status, Status::failed);
}

class Gold : public Test {
 protected:
  Gold() : path_((std::filesystem::temp_directory_path() / ("shard8_gold_" + std::to_string(::getpid()))).string()) {}
  ~Gold() override { std::filesystem::remove(path_); }
  void write(const std::string& text) const { std::ofstream(path_) << text; }
  std::string error() const {
    try {
      train::read_gold(path_);
    } catch (const base::Error& e) {
      EXPECT_EQ(e.code(), base::ExitCode::deck);
      return e.what();
    }
    return "no error";
  }
  std::string path_;
};

TEST_F(Gold, ReadsMetrics) {
  write("{\"step\": 0, \"loss\": 5.25, \"grad_norm\": 1}\n{\"loss\": 0.1, \"step\": 1}\n");
  EXPECT_EQ(train::read_gold(path_), (std::vector<double>{5.25, 0.1}));
}

TEST_F(Gold, SaysWhatIsWrongAndWhere) {
  EXPECT_TRUE(has(error(), "cannot read '" + path_ + "'")) << error();
  const std::string first = "{\"step\": 0, \"loss\": 5}\n";
  for (const char* second :
       {"{\"step\": 2, \"loss\": 5}\n", "{\"step\": 1}\n", "{\"step\": 1, \"loss\": \"5\"}\n", "text\n", "[1, 5]\n",
        "\n", "{\"step\": 1.0, \"loss\": 5}\n", "{\"step\": -1, \"loss\": 5}\n"}) {
    write(first + second);
    EXPECT_TRUE(has(error(), path_ + ":2: expected a JSON object with \"step\": 1 and \"loss\"")) << second << error();
  }
}

}  // namespace
}  // namespace shard8
