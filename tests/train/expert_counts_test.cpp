// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <optional>

#include "tests/train/decks.hpp"
#include "tests/train/training.hpp"
#include "train/plan/plan.hpp"

// What the layers of experts count in a step (profile::ExpertCounts), against numbers known in closed form, the tokens
// of each expert, the bytes that were sent and those that were planned.

namespace shard8 {
namespace {

constexpr std::int64_t kLayers = 3, kExperts = 8, kSeq = 32, kHidden = 64, kSteps = 2;

struct Variant {
  int replicate = 1;
  const char* compute = "fp32";
  const char* recompute = "none";
  const char* routing = "routing: balanced";
  int per_token = 2;
  double capacity = 1;
  int micro_batches = 1;
  int dense_layers = 1;
  const char* fp8 = "";  ///< the deck's group
};

std::string name_of(const Variant& v) {
  return fmt::format("replicate {}, {}, recompute {}, {}, {} a token, capacity {}, {} micro-batches", v.replicate,
                     v.compute, v.recompute, v.routing, v.per_token, v.capacity, v.micro_batches);
}

int group_ranks(const Variant& v) { return test::world_size() / v.replicate; }

deck::Config deck_of(const Variant& v) {
  const int ranks = test::world_size();
  const std::string text = fmt::format(
      R"(
model: {{hidden: {}, ffn: 96, layers: {}, heads: 4, kv_heads: 2, vocab: 67, seq: {}, recompute: {}}}
moe: {{experts: {}, experts_per_token: {}, ffn: 32, {}, capacity: {}, dense_layers: {}}}
mesh: {{replicate: {}, shard: {}, expert: {}}}
precision: {{compute: {}}}
fp8: {{{}}}
optimizer: {{lr: 0.002, warmup: 2, decay_steps: 100}}
data: {{kind: synthetic, batch: {}, micro_batch: 1}}
run: {{steps: {}}}
)",
      kHidden, kLayers, kSeq, v.recompute, kExperts, v.per_token, v.routing, v.capacity, v.dense_layers, v.replicate,
      group_ranks(v), group_ranks(v), v.compute, v.fp8, ranks * v.micro_batches, kSteps);
  return deck::load_text(text, "counts.yaml").config;
}

/// Bytes of all all_to_alls of a step that this rank gave, by the log of all steps.
std::int64_t sent_bytes(test::Training& training) {
  std::uint64_t bytes = 0;
  for (const auto& [key, stats] : training.log().entries())
    if (key.op == profile::Collective::all_to_all) bytes += stats.bytes;
  return static_cast<std::int64_t>(bytes);
}

std::int64_t planned_bytes(const test::Training& training) {
  std::uint64_t bytes = 0;
  for (const auto& [key, calls] : train::traffic(training.setup()))
    if (key.op == profile::Collective::all_to_all) bytes += key.bytes * calls;
  return static_cast<std::int64_t>(bytes);
}

std::int64_t of_all(const comm::Communicator& world, std::int64_t value) {
  std::array<std::uint64_t, 1> sum{static_cast<std::uint64_t>(value)};
  world.all_reduce(sum, comm::Communicator::Reduce::sum);
  return static_cast<std::int64_t>(sum[0]);
}

class ExpertCounts : public ::testing::Test {
 protected:
  /// Trains, and returns the counts of the last step.
  profile::ExpertCounts train(const Variant& v) {
    training_.emplace(deck_of(v), MPI_COMM_WORLD);
    profile::ExpertCounts sum;
    for (const train::StepResult& step : training_->run(0, kSteps)) {
      last_ = step.experts->counts;
      sum.add(last_);
    }
    layers_ = kLayers - v.dense_layers;
    mean_rows_ = v.micro_batches * layers_ * kSeq * v.per_token;
    EXPECT_EQ(last_.ranks, group_ranks(v));
    EXPECT_EQ(last_.layers, layers_ * v.micro_batches);
    EXPECT_EQ(last_.sent, mean_rows_) << "no token is padding";
    const auto& world = training_->mesh().world;
    EXPECT_EQ(of_all(world, last_.received), of_all(world, last_.sent));
    if (!tensor::kDevice) {  // the log of devices has mean rows
      EXPECT_EQ(sum.dispatched_bytes + sum.combined_bytes, sent_bytes(*training_));
    }
    const auto rows = training_->trainer().expert_rows();
    EXPECT_EQ(static_cast<std::int64_t>(*std::ranges::max_element(rows)), last_.most);
    EXPECT_EQ(static_cast<std::int64_t>(*std::ranges::min_element(rows)), last_.least);
    return last_;
  }
  /// Of the last step, in a single expert group: rows of each rank of it, by layer.
  std::int64_t rows_of(std::int64_t layer, int rank) {
    const auto rows = training_->trainer().expert_rows();
    const std::int64_t local = kExperts / last_.ranks;
    const auto of_rank =
        rows.subspan(static_cast<std::size_t>(layer * kExperts + rank * local), static_cast<std::size_t>(local));
    return static_cast<std::int64_t>(std::accumulate(of_rank.begin(), of_rank.end(), std::uint64_t{0}));
  }

  std::optional<test::Training> training_;
  profile::ExpertCounts last_;
  std::int64_t layers_ = 0, mean_rows_ = 0;
};

TEST_F(ExpertCounts, BalancedRoutingIsAsPlanned) {
  const int ranks = test::world_size();
  for (const char* recompute : {"none", "selective", "full"}) {
    for (const int micro_batches : {1, 2}) {
      for (const char* compute : {"fp32", "bf16"}) {
        const Variant v{.compute = compute, .recompute = recompute, .micro_batches = micro_batches};
        SCOPED_TRACE(name_of(v));
        const profile::ExpertCounts got = train(v);
        // A rank's K·seq rows of a micro-batch are a multiple of the experts.
        EXPECT_EQ(got.least, ranks * micro_batches * kSeq * v.per_token / kExperts);
        EXPECT_EQ(got.most, got.least);
        EXPECT_EQ(got.mean, static_cast<double>(got.least));
        EXPECT_EQ(got.received, mean_rows_);
        EXPECT_EQ(got.busiest, mean_rows_);
        EXPECT_EQ(got.rounds, got.layers);
        EXPECT_EQ(got.most_rounds, 1);
        EXPECT_EQ(got.dispatched_bytes + got.combined_bytes, planned_bytes(*training_));
      }
    }
  }
}

/// Tokens and gradients travel in FP8 in layers that have it, and each expert's rows are padded.
TEST_F(ExpertCounts, BytesOfFp8) {
  for (const char* fp8 : {"recipe: delayed", "recipe: current, first_layers_bf16: 2", "recipe: mxfp8"}) {
    for (const char* routing : {"routing: balanced", "routing: zipf, skew: 2"}) {
      const Variant v{.compute = "bf16", .routing = routing, .dense_layers = 0, .fp8 = fp8};
      SCOPED_TRACE(name_of(v));
      SCOPED_TRACE(fp8);
      const profile::ExpertCounts got = train(v);
      if (routing[9] == 'b') {
        EXPECT_EQ(got.dispatched_bytes + got.combined_bytes, planned_bytes(*training_));
      }
    }
  }
}

/// With K = 1 and this skew all tokens of a layer choose one expert.
TEST_F(ExpertCounts, AllTokensToOneRank) {
  const int ranks = test::world_size();
  for (const char* recompute : {"none", "full"}) {
    const Variant v{.recompute = recompute, .routing = "routing: zipf, skew: 60", .per_token = 1, .micro_batches = 2};
    SCOPED_TRACE(name_of(v));
    const profile::ExpertCounts got = train(v);
    EXPECT_EQ(got.least, 0);
    EXPECT_EQ(got.most, ranks * 2 * kSeq);
    EXPECT_EQ(got.busiest, ranks * mean_rows_) << "the busiest rank has as many times the mean as there are ranks";
    EXPECT_EQ(got.rounds, ranks * got.layers);
    EXPECT_EQ(got.most_rounds, ranks);
    EXPECT_EQ(got.received % (2 * ranks * kSeq), 0) << "all rows of a layer, or none";
    if (ranks == 1) continue;
    // Rows of this rank go to one rank, which takes those of lower ranks first: in round `rank` of `ranks`.
    const int rank = training_->mesh().world.rank();
    const std::int64_t again = recompute[0] == 'f' || rank > 0 ? mean_rows_ : 0, row = kHidden * 4;
    EXPECT_EQ(got.dispatched_bytes, mean_rows_ * (2 * row + 4) + again * (row + 4));
    EXPECT_EQ(got.combined_bytes, got.received * (2 * row + 4)) << "results go back";
  }
}

TEST_F(ExpertCounts, SkewIsThatOfTheExpertsTokens) {
  for (const double capacity : {1.0, 1.4, 8.0}) {
    const Variant v{.routing = "routing: zipf, skew: 1.2", .capacity = capacity, .dense_layers = 0};
    SCOPED_TRACE(name_of(v));
    const profile::ExpertCounts got = train(v);
    const std::int64_t mean = kSeq * v.per_token;
    const auto round = std::min(static_cast<std::int64_t>(std::ceil(capacity * static_cast<double>(mean))),
                                training_->setup().dims.experts.most_rows(kSeq));
    std::int64_t received = 0, busiest = 0, rounds = 0, most_rounds = 0;
    for (std::int64_t layer = 0; layer < layers_; ++layer) {
      std::int64_t most = 0;
      for (int rank = 0; rank < got.ranks; ++rank) most = std::max(most, rows_of(layer, rank));
      received += rows_of(layer, training_->mesh().world.rank());
      busiest += most;
      rounds += (most + round - 1) / round;
      most_rounds = std::max(most_rounds, (most + round - 1) / round);
    }
    EXPECT_EQ(got.received, received);
    EXPECT_EQ(got.busiest, busiest);
    EXPECT_EQ(got.rounds, rounds);
    EXPECT_EQ(got.most_rounds, most_rounds);
    if (got.ranks > 1) {
      EXPECT_GT(got.busiest, mean_rows_);
    }
  }
}

/// Each of two replicas is a group, whose busiest rank has all rows of its own tokens alone.
TEST_F(ExpertCounts, GroupsCountForThemselves) {
  const int ranks = test::world_size();
  if (ranks % 2 != 0) GTEST_SKIP() << "two replicas need an even number of ranks";
  const Variant v{.replicate = 2, .routing = "routing: zipf, skew: 60", .per_token = 1};
  const profile::ExpertCounts got = train(v);
  EXPECT_EQ(got.busiest, ranks / 2 * mean_rows_);
  EXPECT_EQ(got.rounds, ranks / 2 * got.layers);
  EXPECT_EQ(got.most, ranks * kSeq);
}

}  // namespace
}  // namespace shard8
