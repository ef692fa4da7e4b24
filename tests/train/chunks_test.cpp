// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "operation/operation.hpp"
#include "tensor/transfer.hpp"
#include "tests/support/compare.hpp"
#include "tests/train/decks.hpp"
#include "tests/train/training.hpp"

// Trainings with 512 tokens on a tensor rank: a device multiplies the tokens of the other rank in several products, and
// sends each chunk while it multiplies the next one (deck key overlap.chunks).

namespace shard8 {
namespace {

using test::Curve;

constexpr int kTensor = 2, kLayers = 2, kHidden = 256, kFfn = 768, kSeq = 512, kMicroBatch = 2, kSteps = 4;

/// The largest relative differences.
struct Most {
  double loss = 0, norm = 0;
};

/// A model and its recipe. With the biases of gpt2 a kernel adds the residual, else the exchange adds it.
///
/// A device may take another algorithm for a product of fewer tokens, and the algorithm may round in another way.
/// `first` and `later` bound the differences of the first step and of later steps. They are those of bounds_of() in
/// tests/random/trial.cpp for two equally right trainings. `gradient` bounds the difference of the first gradient,
/// relative to its norm. It was chosen: it leaves room for the rounding of BF16 (4e-3), and for that of FP8 (6e-2 in
/// E4M3) in some elements. A chunk that is lost or summed into other tokens would change most of the gradient.
struct Case {
  const char* arch;
  const char* recipe;
  Most first, later;
  double gradient;
};
constexpr Case kCases[] = {{"llama", "none", {1e-3, 1e-2}, {2e-3, 1e-1}, 2e-2},
                           {"gpt2", "none", {1e-3, 1e-2}, {2e-3, 1e-1}, 2e-2},
                           {"llama", "block", {4e-3, 2e-2}, {2e-2, 1.2e-1}, 1e-1},
                           {"gpt2", "delayed", {1.5e-2, 1e-1}, {3e-2, 5e-1}, 1e-1}};

/// `overlap` has keys of the deck's group overlap. `tokens` has the tokens of each product that proj computes in one
/// forward pass of a layer; fc2 computes as many. A rank multiplies the 512 tokens of the other rank in chunks of
/// multiples of 128, then its own 512 tokens at once.
struct Cut {
  const char* overlap;
  std::vector<std::int64_t> tokens;
};
const Cut kOff{"enable: false", {1024}};
const Cut kDefault{"enable: true", {256, 256, 512}};
const Cut kOne{"enable: true, chunks: 1", {512, 512}};
const Cut kThree{"enable: true, chunks: 3", {128, 128, 256, 512}};
const Cut kMoreThanThereAre{"enable: true, chunks: 16", {128, 128, 128, 128, 512}};

std::string name_of(const Case& c, const Cut& cut) { return fmt::format("{} {}, {}", c.arch, c.recipe, cut.overlap); }

/// Two tensor ranks. Any further ranks are shards.
deck::Config deck_of(const Case& c, const Cut& cut, int steps) {
  const std::string text = fmt::format(R"(
model: {{arch: {}, hidden: {}, ffn: {}, layers: {}, heads: 4, vocab: 256, seq: {}}}
mesh: {{shard: {}, tensor: {}}}
precision: {{compute: bf16}}
fp8: {{recipe: {}}}
overlap: {{{}}}
optimizer: {{lr: 0.002, warmup: 1, decay_steps: 100}}
data: {{kind: synthetic, batch: {}, micro_batch: {}}}
run: {{steps: {}}}
)",
                                       c.arch, kHidden, kFfn, kLayers, kSeq, test::world_size() / kTensor, kTensor,
                                       c.recipe, cut.overlap, 2 * kMicroBatch, kMicroBatch, steps);
  return deck::load_text(text, "chunks.yaml").config;
}

struct Result {
  Curve curve;
  std::vector<float> gradient;  ///< this rank's shards after the first step
};

/// The elements of this rank's shards of all weights, `form` of each, without rows of padding.
std::vector<float> elements_of(test::Training& training, tensor::Tensor fsdp::WeightForms::*form) {
  std::vector<float> all;
  const auto& units = training.trainer().state().units;
  for (int u = 0; u < static_cast<int>(units.units().size()); ++u)
    for (const fsdp::WeightForms& weight : units.weights(u)) {
      if (weight.owned_rows() == 0) continue;
      const auto elements = tensor::to_host<float>(training.exec(), (weight.*form).slice(0, weight.owned_rows()));
      all.insert(all.end(), elements.begin(), elements.end());
    }
  return all;
}

/// Trains `steps` steps. Expects that the first step cuts the products of proj and fc2 as `cut` says.
Result train(const Case& c, const Cut& cut, int steps) {
  std::map<std::int64_t, std::vector<std::int64_t>> tokens;  // by the columns of the input
  operation::Observer observer;
  observer.product = [&](const operation::Product& p) {
    // No other linear of the deck has an output of this width.
    if (p.kind == operation::Product::Kind::fprop && p.cols == kHidden) tokens[p.inner].push_back(p.rows);
  };
  test::Training training(deck_of(c, cut, steps), MPI_COMM_WORLD);
  training.trainer().observe(&observer);
  auto results = training.run(0, 1);
  training.trainer().observe(nullptr);
  std::map<std::int64_t, std::vector<std::int64_t>> expected;
  for (const std::int64_t input : {kHidden / kTensor, kFfn / kTensor})
    for (std::int64_t i = 0; i < kLayers * training.setup().layout.micro_batches; ++i)
      expected[input].insert(expected[input].end(), cut.tokens.begin(), cut.tokens.end());
  EXPECT_EQ(tokens, expected);

  Result result;
  result.gradient = elements_of(training, &fsdp::WeightForms::gradient);
  if (steps > 1)
    for (const auto& r : training.run(1, steps - 1)) results.push_back(r);
  for (const auto& r : results) {
    result.curve.losses.push_back(r.loss);
    result.curve.norms.push_back(r.gradient_norm);
  }
  result.curve.weights = elements_of(training, &fsdp::WeightForms::master);
  return result;
}

/// Expects that the differences are within the bounds. Rank 0 prints the largest ones.
void expect_alike(const Case& c, const Cut& cut, const Result& got, const Result& plain) {
  Most worst;
  ASSERT_EQ(got.curve.losses.size(), plain.curve.losses.size());
  for (std::size_t s = 0; s < plain.curve.losses.size(); ++s) {
    const Most& most = s == 0 ? c.first : c.later;
    const double loss = std::abs(got.curve.losses[s] / plain.curve.losses[s] - 1);
    const double norm = std::abs(got.curve.norms[s] / plain.curve.norms[s] - 1);
    EXPECT_LE(loss, most.loss) << "loss of step " << s;
    EXPECT_LE(norm, most.norm) << "gradient norm of step " << s;
    worst = {std::max(worst.loss, loss), std::max(worst.norm, norm)};
  }
  ASSERT_TRUE(std::any_of(plain.gradient.begin(), plain.gradient.end(), [](auto g) { return g != 0; }));
  const double gradient = tests::relative_distance(got.gradient, plain.gradient);
  EXPECT_LE(gradient, c.gradient) << "first gradient";
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0)
    fmt::print("{}: loss {:.1e}, norm {:.1e}, first gradient {:.1e}\n", name_of(c, cut), worst.loss, worst.norm,
               gradient);
}

class Chunks : public testing::Test {
 protected:
  void SetUp() override {
    if (test::world_size() < kTensor) GTEST_SKIP() << "needs two tensor ranks";
  }
};

TEST_F(Chunks, CutTheTokensOfTheOtherRank) {
  for (const Cut& cut : {kOff, kDefault, kOne, kThree, kMoreThanThereAre}) {
    SCOPED_TRACE(name_of(kCases[0], cut));
    train(kCases[0], cut, 1);
  }
}

TEST_F(Chunks, AreThoseOfThePlan) {
  constexpr int kPlanned = 3;
  for (const Case& c : kCases)
    for (const Cut& cut : {kDefault, kOne, kThree}) {
      SCOPED_TRACE(name_of(c, cut));
      test::Training training(deck_of(c, cut, kPlanned), MPI_COMM_WORLD);
      test::expect_listed_operations(training);
      test::expect_planned_traffic(training, kPlanned - 1);
      test::expect_planned_memory(training);
    }
}

TEST_F(Chunks, TrainAlikeAndRepeatBitForBit) {
  for (const Case& c : kCases) {
    const Result plain = train(c, kOff, kSteps);
    EXPECT_NE(plain.curve.losses.front(), plain.curve.losses.back());
    for (const Cut& cut : {kDefault, kThree}) {
      SCOPED_TRACE(name_of(c, cut));
      const Result first = train(c, cut, kSteps), again = train(c, cut, kSteps);
      test::expect_same(again.curve, first.curve);
      EXPECT_TRUE(tests::same_bits(again.gradient, first.gradient)) << "first gradient";
      expect_alike(c, cut, first, plain);
    }
  }
}

}  // namespace
}  // namespace shard8
