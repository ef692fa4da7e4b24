// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <map>

#include "tests/fp8/delayed_model.hpp"
#include "tests/train/fp8_decks.hpp"
#include "tests/train/fp8_weights.hpp"

// After every step of a run the FP8 weights that products will read are those of the masters, on every
// rank, with the scales that the recipe's formulas give.

namespace shard8 {
namespace {

using fsdp::Pass;
using test::Fp8Variant;
using test::GatheredWeight;
using tests::DelayedModel;

constexpr int kSteps = 50;

float through_bf16(float x) { return static_cast<float>(tensor::BFloat16(x)); }

/// The largest |bf16(master)| of the owned elements of a block.
float amax_of(const GatheredWeight& w, std::int64_t row, std::int64_t rows, std::int64_t col, std::int64_t cols) {
  float amax = 0;
  for (std::int64_t r = row; r < row + rows; ++r)
    for (std::int64_t c = col; c < col + cols; ++c)
      amax = std::max(amax, std::abs(through_bf16(w.master[r * w.cols + c])));
  return amax;
}

/// Of a whole fused weight, over all its shards.
float whole_amax(test::Training& training, const GatheredWeight& w) {
  std::array<double, 1> amax{amax_of(w, 0, w.rows, 0, w.cols)};
  training.mesh().model.all_reduce(amax, comm::Communicator::Reduce::max);
  return static_cast<float>(amax[0]);
}

/// Largest distance of a value from its nearest number of E4M3 under a scale.
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

/// Every owned element lies within the rounding of its master. Only delayed scaling may saturate more
/// than the rounding of a scale does.
void expect_rounded(const GatheredWeight& w, const tensor::Operand& copy, bool may_saturate) {
  std::int64_t wrong = 0;
  for (std::int64_t r = 0; r < w.rows; ++r) {
    for (std::int64_t c = 0; c < w.cols; ++c) {
      const std::int64_t row = w.first_row + r;
      const double s = inverse_scale(copy, row, c), want = static_cast<double>(through_bf16(w.master[r * w.cols + c]));
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

/// Block scales of this rank's own blocks, from the formulas.
void expect_block_scales(const GatheredWeight& w, const tensor::Operand& copy) {
  const std::int64_t br = tensor::block_rows(copy.scaling), bc = tensor::block_cols(copy.scaling);
  for (std::int64_t r = 0; r < w.rows; r += br) {
    for (std::int64_t c = 0; c < w.cols; c += bc) {
      const double amax = static_cast<double>(amax_of(w, r, br, c, bc));
      const double got = inverse_scale(copy, w.first_row + r, c);
      const double exponent = copy.scaling == tensor::Scaling::tile_128
                                  ? -std::floor(std::log2(static_cast<double>(static_cast<float>(448 / amax))))
                                  : std::ceil(std::log2(amax / 448));
      ASSERT_EQ(got, std::exp2(exponent)) << w.name << " block of (" << r << ", " << c << ")";
    }
  }
}

/// What the scales of per-tensor recipes must be, followed from step to step.
class Scales {
 public:
  /// Masters have just been written: the bytes were cast with the scale known before (delayed), or with
  /// that of these masters.
  void check(test::Training& training, const GatheredWeight& w, bool initial) {
    const auto& recipe = training.setup().weights.recipe;
    const float amax = whole_amax(training, w);
    DelayedModel& model =
        models_.try_emplace(w.name, 448.0, 0, static_cast<std::size_t>(recipe.amax_history), false).first->second;
    float scale = model.scale();
    if (initial || !recipe.delayed()) scale = model.scale_of(amax, 1.0f);
    model.see(amax);
    model.end_step();
    EXPECT_EQ(*w.weight.forward.scale_inv.as<float>(), 1.0f / scale) << w.name;
  }

 private:
  std::map<std::string, DelayedModel> models_;
};

void expect_same_on_all_ranks(test::Training& training) {
  const auto hash = test::hash_weights(training);
  const auto& mesh = training.mesh();
  const double high = static_cast<double>(hash.part >> 32U), low = static_cast<double>(hash.part & 0xffffffffU);
  for (const double other : mesh.data.all_gather(std::array{high})) EXPECT_EQ(other, high) << "hash of a data rank";
  for (const double other : mesh.data.all_gather(std::array{low})) EXPECT_EQ(other, low) << "hash of a data rank";
  for (const auto bits : test::weight_scales(training))
    for (const double other : mesh.world.all_gather(std::array{static_cast<double>(bits)}))
      EXPECT_EQ(other, static_cast<double>(bits)) << "scale on another rank";
}

void check_weights(test::Training& training, Scales& scales, bool initial) {
  const auto& recipe = training.setup().weights.recipe;
  std::map<std::string, int> seen;
  test::for_each_weight(training, [&](const GatheredWeight& w, Pass pass) {
    ++seen[w.name];
    const auto& copy = pass == Pass::forward ? w.weight.forward : w.weight.backward;
    if (pass == Pass::backward && !recipe.two_copies(fp8::Role::weight)) return;  // the same copy
    expect_rounded(w, copy, recipe.delayed());
    if (!recipe.per_tensor())
      expect_block_scales(w, copy);
    else if (pass == Pass::forward)
      scales.check(training, w, initial);
  });
  EXPECT_EQ(seen.size(), static_cast<std::size_t>(4 * recipe.layers));
  for (const auto& [name, times] : seen) EXPECT_EQ(times, 2) << name << ": forward and backward";
  expect_same_on_all_ranks(training);
}

/// Every mesh and recipe; what else can vary does, so that each value meets each recipe.
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
      v.micro_batch = (m + r) % 3 == 1 ? 2 : 0;
      v.reshard = (m + r) % 4 != 2;
      v.recompute = kRecompute[(m + 2 * r) % 3];
      v.arch = (m + r) % 5 == 4 ? "gpt2" : "llama";
      if (ranks_of(v) == test::world_size()) all.push_back(v);
    }
  }
  return all;
}

TEST(Fp8Weights, AreThoseOfTheMastersAfterEveryStep) {
  ASSERT_FALSE(variants().empty());
  for (const Fp8Variant& v : variants()) {
    SCOPED_TRACE(name_of(v));
    test::Training training(test::fp8_deck(v, kSteps), MPI_COMM_WORLD);
    Scales scales;
    check_weights(training, scales, true);
    double first = 0, last = 0;
    for (int step = 0; step < kSteps && !testing::Test::HasFailure(); ++step) {
      last = training.run(step, 1).front().loss;
      if (step == 0) first = last;
      check_weights(training, scales, false);
    }
    EXPECT_LT(last, first);
  }
}

TEST(Fp8Weights, AreTheSameOnEveryMeshAtEqualMasters) {
  for (const Fp8Variant& v : variants()) {
    SCOPED_TRACE(name_of(v));
    test::Training here(test::fp8_deck(v, 2), MPI_COMM_WORLD);
    Fp8Variant one = v;
    one.mesh = {1, 1, 1};
    test::Training alone(test::fp8_deck(one, 2), MPI_COMM_SELF);
    EXPECT_EQ(test::hash_weights(here).whole, test::hash_weights(alone).whole);
    EXPECT_EQ(test::weight_scales(here), test::weight_scales(alone));
  }
}

}  // namespace
}  // namespace shard8
