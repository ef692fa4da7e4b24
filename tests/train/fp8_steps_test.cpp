// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <map>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/parameters.hpp"
#include "tests/fp8/delayed_model.hpp"
#include "tests/train/decks.hpp"
#include "tests/train/fp8_weights.hpp"

// After every step of a run the FP8 weights that products will read are casts of the masters on every rank, with the
// scales that the recipe's formulas give.

namespace shard8 {
namespace {

using fsdp::Pass;
using test::Fp8Variant;
using test::GatheredWeight;
using tests::DelayedModel;

/// Steps of the trainings whose weights are checked: 6, or what SHARD8_FP8_STEPS says.
int checked_steps() {
  static const int steps = [] {
    const char* const text = std::getenv("SHARD8_FP8_STEPS");
    return text == nullptr ? 6 : std::atoi(text);
  }();
  return steps;
}

/// The value that is cast: an element of the master, rounded to bf16 first with compute bf16.
float cast_of(const GatheredWeight& w, std::int64_t row, std::int64_t col) {
  const float x = w.master[row * w.cols + col];
  return w.through_bf16 ? static_cast<float>(tensor::BFloat16(x)) : x;
}

/// The largest magnitude among this rank's elements of a block.
float amax_of(const GatheredWeight& w, std::int64_t row, std::int64_t rows, std::int64_t col, std::int64_t cols) {
  float amax = 0;
  for (std::int64_t r = row; r < row + rows; ++r)
    for (std::int64_t c = col; c < col + cols; ++c) amax = std::max(amax, std::abs(cast_of(w, r, c)));
  return amax;
}

/// The amax of a whole fused weight, over all its shards. Collective.
float whole_amax(test::Training& training, const GatheredWeight& w) {
  std::array<double, 1> amax{amax_of(w, 0, w.rows, 0, w.cols)};
  training.mesh().group(base::AxisSet::model).all_reduce(amax, comm::Communicator::Reduce::max);
  return static_cast<float>(amax[0]);
}

/// The largest distance that a value may have from the nearest number of E4M3 under this scale.
double rounding(double value, double scale_inv) {
  constexpr double kSmallestNormal = 0x1p-6, kHalfUnit = 0x1p-4;
  const double magnitude = std::max(std::abs(value) / scale_inv, kSmallestNormal);
  const double power = std::bit_cast<double>(std::bit_cast<std::uint64_t>(magnitude) & 0x7ff0000000000000ULL);
  return power * kHalfUnit * scale_inv * (1 + 1e-5);
}

double inverse_scale(const tensor::Operand& o, std::int64_t row, std::int64_t col) {
  if (o.scaling == tensor::Scaling::tensor) return static_cast<double>(*o.scale_inv.as<float>());
  const std::int64_t i = row / tensor::block_rows(o.scaling) * o.scale_inv.cols() + col / tensor::block_cols(o.scaling);
  return o.scale_inv.dtype == tensor::DType::fp32
             ? static_cast<double>(o.scale_inv.as<float>()[i])
             : static_cast<double>(static_cast<float>(o.scale_inv.as<tensor::E8M0>()[i]));
}

/// Expects that each of this rank's elements differs from its master by at most the rounding. Only with delayed scaling
/// may a value saturate; otherwise a value exceeds the largest number only by the rounding of the scale.
void expect_rounded(const GatheredWeight& w, const tensor::Operand& copy, bool may_saturate) {
  std::int64_t wrong = 0;
  for (std::int64_t r = 0; r < w.rows; ++r) {
    for (std::int64_t c = 0; c < w.cols; ++c) {
      const std::int64_t row = w.first_row + r;
      const double s = inverse_scale(copy, row, c), want = static_cast<double>(cast_of(w, r, c));
      const double got = s * static_cast<double>(static_cast<float>(copy.data.as<tensor::E4M3>()[row * w.cols + c]));
      const bool saturated = std::abs(want) > 448 * s * (may_saturate ? 1 : 1 + 1e-6);
      const bool right =
          saturated ? may_saturate && std::abs(got) == 448 * s : std::abs(got - want) <= rounding(want, s);
      if (!right && wrong++ == 0)
        ADD_FAILURE() << w.name << " (" << row << ", " << c << "): " << got << " for " << want << " with scale "
                      << 1 / s;
    }
  }
  EXPECT_EQ(wrong, 0) << w.name;
}

/// Expects that the scales of this rank's own blocks are those of the formulas.
void expect_block_scales(const GatheredWeight& w, const tensor::Operand& copy, bool power_of_2) {
  const std::int64_t br = tensor::block_rows(copy.scaling), bc = tensor::block_cols(copy.scaling);
  for (std::int64_t r = 0; r < w.rows; r += br) {
    for (std::int64_t c = 0; c < w.cols; c += bc) {
      const float amax = amax_of(w, r, br, c, bc), scale = 448.0f / amax;
      double want = static_cast<double>(1.0f / scale);
      if (copy.scaling != tensor::Scaling::tile_128)
        want = std::exp2(std::ceil(std::log2(static_cast<double>(amax) / 448)));
      else if (power_of_2)
        want = std::exp2(-std::floor(std::log2(static_cast<double>(scale))));
      ASSERT_EQ(inverse_scale(copy, w.first_row + r, c), want) << w.name << " block of (" << r << ", " << c << ")";
    }
  }
}

/// Computes, step by step, the scales that recipes with one scale for a tensor must have.
class Scales {
 public:
  /// Checks the scale of a weight after its master was updated. With delayed scaling a stored shard was cast with the
  /// scale known before the update, a shard that is cast for a gather with the scale known after it. With current
  /// scaling the scale is that of the updated master.
  void check(test::Training& training, const GatheredWeight& w, bool initial) {
    const auto& recipe = training.setup().weights.recipe;
    const float amax = whole_amax(training, w);
    DelayedModel& model = models_
                              .try_emplace(w.name, 448.0, recipe.margin, static_cast<std::size_t>(recipe.amax_history),
                                           recipe.amax_algo == deck::AmaxAlgo::most_recent)
                              .first->second;
    const float before = model.scale();
    model.see(amax);
    model.end_step();
    const bool kept = training.setup().weights.stored();
    float scale = !recipe.delayed() ? model.scale_of(amax, 1.0f) : kept && !initial ? before : model.scale();
    if (recipe.power_of_2) scale = std::exp2(std::floor(std::log2(scale)));
    EXPECT_EQ(*w.weight.forward.scale_inv.as<float>(), 1.0f / scale) << w.name;
  }

 private:
  std::map<std::string, DelayedModel> models_;
};

/// Expects the same numbers on every rank of a group. Collective.
void expect_same_in(const comm::Communicator& group, const std::vector<double>& own, const char* what) {
  const auto all = group.all_gather(own);
  for (std::size_t i = 0; i < all.size(); ++i)
    EXPECT_EQ(all[i], own[i % own.size()]) << what << " of rank " << i / own.size() << " of " << group.name();
}

/// A hash of the bytes of an operand.
std::uint64_t hash_of(const tensor::Operand& o) {
  std::uint64_t hash = 0;
  for (const tensor::Tensor& t : {o.data, o.scale_inv})
    hash = 31 * hash + std::hash<std::string_view>{}({reinterpret_cast<const char*>(t.data), t.bytes()});
  return hash;
}

/// The sum of the squares of this rank's rows of a copy.
double squares_of(const GatheredWeight& w, const tensor::Operand& copy) {
  double sum = 0;
  for (std::int64_t r = 0; r < w.rows; ++r)
    for (std::int64_t c = 0; c < w.cols; ++c) {
      const std::int64_t row = w.first_row + r;
      const double value = static_cast<double>(static_cast<float>(copy.data.as<tensor::E4M3>()[row * w.cols + c]));
      sum += std::pow(value * inverse_scale(copy, row, c), 2);
    }
  return sum;
}

/// Expects that the norms of the last step are those of weights with these squares, by layer, on this rank. Collective.
void expect_norms(test::Training& training, std::vector<double> squares) {
  const auto norms = training.trainer().weight_norms();
  EXPECT_EQ(norms.empty(), !training.setup().weights.stored());
  training.mesh().group(base::AxisSet::model).all_reduce(squares, comm::Communicator::Reduce::sum);
  if (norms.empty()) return;
  ASSERT_EQ(norms.size(), training.trainer().unit_norms().size());
  double all = 0;
  for (std::size_t layer = 0; layer < squares.size(); ++layer) {
    const double got = norms[static_cast<std::size_t>(model::layer_unit(static_cast<std::int64_t>(layer)))];
    EXPECT_NEAR(got, std::sqrt(squares[layer]), 1e-12 * got) << "layer " << layer;
    all += got;
  }
  EXPECT_EQ(std::accumulate(norms.begin(), norms.end(), 0.0), all) << "units that are no layers";
}

/// Returns a hash of this rank's weights. Sets `squares` to the sums of their squares, by layer.
std::uint64_t check_weights(test::Training& training, Scales& scales, bool initial, std::vector<double>& squares) {
  const auto& recipe = training.setup().weights.recipe;
  std::map<std::string, int> seen;
  std::uint64_t hash = 0;
  squares.assign(static_cast<std::size_t>(training.setup().config.model.layers), 0.0);
  test::for_each_weight(training, [&](const GatheredWeight& w, Pass pass) {
    ++seen[w.name];
    const auto& copy = pass == Pass::forward ? w.weight.forward : w.weight.backward;
    hash = 31 * hash + hash_of(copy);
    if (pass == Pass::backward && !recipe.two_copies(fp8::Role::weight)) return;  // the same copy
    squares[static_cast<std::size_t>(w.site.layer + training.setup().config.fp8.first_layers_bf16)] +=
        squares_of(w, copy);
    expect_rounded(w, copy, recipe.delayed());
    if (!recipe.per_tensor())
      expect_block_scales(w, copy, recipe.power_of_2);
    else if (pass == Pass::forward)
      scales.check(training, w, initial);
  });
  EXPECT_EQ(seen.size(), static_cast<std::size_t>(4 * recipe.layers));
  for (const auto& [name, times] : seen) EXPECT_EQ(times, 2) << name << ": forward and backward";
  for (const base::Axis axis : {base::Axis::shard, base::Axis::replicate})
    expect_same_in(training.mesh().group(axis),
                   {static_cast<double>(hash >> 32U), static_cast<double>(hash & 0xffffffffU)}, "hash");
  const auto of_tensors = test::weight_scales(training);
  if (!of_tensors.empty()) expect_same_in(training.mesh().world, {of_tensors.begin(), of_tensors.end()}, "scales");
  return hash;
}

/// Every mesh with every recipe. The other settings change from one to the next, so that each of their values is tested
/// with each recipe.
std::vector<Fp8Variant> variants() {
  constexpr const char* kRecipes[] = {"delayed", "current", "block", "mxfp8"};
  constexpr const char* kRecompute[] = {"none", "selective", "full"};
  const std::array<int, 3> meshes[] = {{1, 1, 1}, {1, 2, 1}, {1, 3, 1}, {1, 4, 1}, {2, 2, 1}, {1, 2, 2}};
  std::vector<Fp8Variant> all;
  for (std::size_t m = 0; m < std::size(meshes); ++m) {
    for (std::size_t r = 0; r < std::size(kRecipes); ++r) {
      Fp8Variant v;
      v.mesh = meshes[m];
      v.recipe = kRecipes[r];
      v.micro_batch = (m + r) % 3 == 1 ? v.mesh[2] : 0;
      v.reshard = (m + r) % 4 != 2;
      v.recompute = kRecompute[(m + 2 * r) % 3];
      v.arch = (m + r) % 5 == 4 ? "gpt2" : "llama";
      if (ranks_of(v) == test::world_size()) all.push_back(v);
    }
  }
  return all;
}

/// Whether the steps whose weights are checked are enough for losses to fall by more than batches differ. Otherwise
/// other trainings, whose weights are not checked, show that losses fall.
bool is_long() { return checked_steps() >= 50; }
constexpr int kFallingSteps = 8, kFallingBatch = 12;

/// In short trainings one sequence of each micro-batch for each rank.
int batch_of(const Fp8Variant& v) { return is_long() ? kFallingBatch : (v.micro_batch > 0 ? 2 : 1) * ranks_of(v); }

/// Trains and checks the weights after each step. Returns the losses of all steps, or fewer if a check failed.
std::vector<double> train_and_check(const deck::Config& config) {
  test::Training training(config, MPI_COMM_WORLD);
  Scales scales;
  std::vector<double> losses;
  std::vector<double> squares;
  const std::uint64_t initial = check_weights(training, scales, true, squares);
  std::uint64_t hash = initial;
  for (int step = 0; step < config.run.steps && !testing::Test::HasFailure(); ++step) {
    losses.push_back(training.run(step, 1).front().loss);
    expect_norms(training, squares);
    hash = check_weights(training, scales, false, squares);
  }
  EXPECT_NE(hash, initial);
  return losses;
}

TEST(Fp8Weights, AreThoseOfTheMastersAfterEveryStep) {
  ASSERT_FALSE(variants().empty());
  for (const Fp8Variant& v : variants()) {
    SCOPED_TRACE(name_of(v));
    auto losses = train_and_check(test::fp8_deck(v, checked_steps(), 2, batch_of(v)));
    ASSERT_EQ(losses.size(), static_cast<std::size_t>(checked_steps()));
    if (!is_long()) losses = test::train_curve(test::fp8_deck(v, kFallingSteps, 2, kFallingBatch)).losses;
    EXPECT_LT(*std::min_element(losses.end() - 5, losses.end()), losses.front());  // batches differ
  }
}

// A few steps with settings that are not the defaults.
TEST(Fp8Weights, AreThoseOfTheMastersWithEverySetting) {
  constexpr int kFew = 3;
  struct Setting {
    const char *recipe, *compute, *weights, *gather, *fp8;
  };
  const Setting settings[] = {
      {"delayed", "bf16", "bf16", "fp8", ""},
      {"delayed", "bf16", "bf16", "bf16", ", margin: 2, amax_history: 1"},
      {"delayed", "fp32", "fp8", "auto", ", margin: -1, amax_algo: most_recent"},
      {"current", "fp32", "bf16", "fp32", ", power_of_2_scales: true"},
      {"current", "fp32", "fp8", "auto", ", first_layers_bf16: 1"},
      {"block", "bf16", "fp8", "auto", ", power_of_2_scales: false"},
      {"block", "fp32", "bf16", "fp8", ", last_layers_bf16: 1"},
      {"mxfp8", "fp32", "fp8", "auto", ""},
      {"mxfp8", "bf16", "bf16", "bf16", ""},
  };
  for (const auto& mesh : {std::array{1, 1, 1}, {1, 2, 1}, {1, 3, 1}, {1, 2, 2}}) {
    for (const Setting& s : settings) {
      Fp8Variant v{mesh, s.recipe};
      v.weights = s.weights;
      v.gather = s.gather;
      v.compute = s.compute;
      if (ranks_of(v) != test::world_size()) continue;
      SCOPED_TRACE(name_of(v) + s.fp8);
      ASSERT_EQ(train_and_check(test::fp8_deck(v, kFew, 2, ranks_of(v), s.fp8)).size(), std::size_t{kFew});
    }
  }
}

/// The hash and the scales of the FP8 weights, at first and after each of two steps.
using Weights = std::pair<std::uint64_t, std::vector<std::uint32_t>>;
std::vector<Weights> weights_of(const deck::Config& config, MPI_Comm comm) {
  test::Training training(config, comm);
  std::vector<Weights> weights;
  for (int step = 0;; ++step) {
    weights.emplace_back(test::hash_weights(training).whole, test::weight_scales(training));
    if (step == 2) return weights;
    training.run(step, 1);
  }
}

/// The steps do not change the masters, whatever the batch.
TEST(Fp8Weights, AreTheSameOnEveryMeshAtEqualMasters) {
  if (test::world_size() == 1) GTEST_SKIP() << "needs two meshes";
  std::map<std::string, std::vector<Weights>> alone;  // by all that matters to the weights of one rank
  for (const Fp8Variant& v : variants()) {
    SCOPED_TRACE(name_of(v));
    deck::Config config = test::fp8_deck(v, 2, 2, batch_of(v));
    config.optimizer.lr = 1e-30;
    deck::Config one = config;
    one.mesh = {};
    one.data.batch = 1;
    one.data.micro_batch = 0;
    const auto [found, is_new] = alone.try_emplace(std::string(v.recipe) + " " + v.arch);
    if (is_new) found->second = weights_of(one, MPI_COMM_SELF);
    EXPECT_EQ(weights_of(config, MPI_COMM_WORLD), found->second);
  }
}

}  // namespace
}  // namespace shard8
