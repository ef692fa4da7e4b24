// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "fp8/quantizer.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "kernels/elementwise.hpp"
#include "tests/fp8/state.hpp"

// Casts of matrices whose tokens are spread over ranks, and of matrices that are computed and cast in the same pass.

namespace shard8 {
namespace {

using fp8::Operands;
using fp8::Quantizer;
using fp8::Role;
using fp8::Site;
using tensor::DType;
using tensor::Tensor;
using tests::State;

constexpr std::int64_t kRows = 128, kCols = 256;
constexpr Site kSite{1, fp8::Linear::proj, Role::output_gradient};

/// This rank's rows of a matrix whose values grow with the rank.
Tensor random_rows(State& s, DType dtype) {
  const Tensor x = s.arena.allocate({kRows, kCols}, DType::fp32);
  std::mt19937 engine(static_cast<unsigned>(s.world.rank()));
  std::normal_distribution<float> draw(0.0f, static_cast<float>(1 + s.world.rank()));
  for (std::int64_t i = 0; i < x.count(); ++i) x.as<float>()[i] = draw(engine);
  if (dtype == DType::fp32) return x;
  const Tensor rounded = s.arena.allocate({kRows, kCols}, dtype);
  kernels::cast(s.exec, rounded, x);
  return rounded;
}

Operands allocate(State& s, const fp8::Recipe& recipe, Role role) {
  const auto one = [&](tensor::Scaling scaling) {
    return fp8::CastBuffer(s.arena, kRows * kCols, scaling).view(kRows, kCols, recipe.dtype(role), scaling);
  };
  const auto rows = one(recipe.rowwise(role));
  if (!recipe.two_copies(role)) return {rows, rows};
  auto columns = one(recipe.columnwise(role));
  if (recipe.transposed(role, false)) {
    columns.transposed = true;
    columns.data.shape = {kCols, kRows};
  }
  return {rows, columns};
}

void expect_same_bytes(const tensor::Operand& a, const tensor::Operand& b) {
  EXPECT_EQ(std::memcmp(a.data.data, b.data.data, a.data.bytes()), 0) << "values";
  EXPECT_EQ(std::memcmp(a.scale_inv.data, b.scale_inv.data, a.scale_inv.bytes()), 0) << "scales";
}

float largest_of(State& s, const Tensor& x, bool over_ranks) {
  double largest = 0;
  for (std::int64_t i = 0; i < x.count(); ++i)
    largest = std::max(largest, std::abs(static_cast<double>(static_cast<float>(x.as<tensor::BFloat16>()[i]))));
  std::array<double, 1> all{largest};
  if (over_ranks) s.world.all_reduce(all, comm::Communicator::Reduce::max);
  return static_cast<float>(all[0]);
}

/// The casts of both states were counted alike, by linear and role.
void expect_same_counts(const State& a, const State& b) {
  const auto got = a.state.figures(a.exec), want = b.state.figures(b.exec);
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_EQ(got[i].elements, want[i].elements) << got[i].tensor;
    EXPECT_EQ(got[i].saturated, want[i].saturated) << got[i].tensor;
    EXPECT_EQ(got[i].flushed, want[i].flushed) << got[i].tensor;
  }
}

TEST(Quantizer, PartsOfAMatrixShareTheGroupsScale) {
  const auto recipe = tests::recipe_of(deck::Recipe::current);
  for (const auto tokens : {Quantizer::Tokens::part, Quantizer::Tokens::all}) {
    State s(recipe);
    const Tensor x = random_rows(s, DType::bf16);
    const Operands out = allocate(s, recipe, kSite.role);
    s.quantizer.cast(kSite, out, x, tokens);
    const float scale = 57344.0f / largest_of(s, x, tokens == Quantizer::Tokens::part);
    EXPECT_EQ(s.scale(kSite), scale);
    EXPECT_EQ(*out.rowwise.scale_inv.as<float>(), 1.0f / scale);
    for (std::int64_t i = 0; i < x.count(); ++i)
      ASSERT_EQ(out.rowwise.data.as<tensor::E5M2>()[i].bits,
                tensor::E5M2(static_cast<float>(x.as<tensor::BFloat16>()[i]) * scale).bits)
          << i;
    const bool reduced = tokens == Quantizer::Tokens::part && s.world.size() > 1;
    EXPECT_EQ(s.log.entries().size(), reduced ? 1U : 0U);
  }
}

/// With format hybrid each 1×128 and each 128×1 block of a gradient is cast to E5M2 with the largest power of
/// two that keeps the block within 57344.
TEST(Quantizer, HybridBlocksCastGradientsToE5M2) {
  auto recipe = tests::recipe_of(deck::Recipe::block);
  recipe.gradient = DType::e5m2;
  State s(recipe);
  const Tensor x = random_rows(s, DType::bf16);
  const Operands out = allocate(s, recipe, kSite.role);
  s.quantizer.cast(kSite, out, x, Quantizer::Tokens::part);
  const auto value = [&](std::int64_t i) { return static_cast<float>(x.as<tensor::BFloat16>()[i]); };
  // Checks `copy`, whose block `block` has the 128 elements from `first` on, `step` apart.
  const auto expect_block = [&](const tensor::Operand& copy, std::int64_t block, std::int64_t first,
                                std::int64_t step) {
    float amax = 0;
    for (std::int64_t i = 0; i < 128; ++i) amax = std::max(amax, std::abs(value(first + i * step)));
    const float scale = std::exp2(std::floor(std::log2(57344.0f / amax)));
    ASSERT_EQ(copy.scale_inv.as<float>()[block], 1.0f / scale) << "block " << block;
    for (std::int64_t i = first; i < first + 128 * step; i += step)
      ASSERT_EQ(copy.data.as<tensor::E5M2>()[i].bits, tensor::E5M2(value(i) * scale).bits) << i;
  };
  for (std::int64_t block = 0; block < kRows * kCols / 128; ++block) expect_block(out.rowwise, block, block * 128, 1);
  for (std::int64_t block = 0; block < kRows / 128 * kCols; ++block)
    expect_block(out.columnwise, block, block / kCols * 128 * kCols + block % kCols, kCols);
  for (const auto& figure : s.state.figures(s.exec)) {
    EXPECT_EQ(figure.dtype, figure.tensor.ends_with("output gradient") ? "e5m2" : "e4m3") << figure.tensor;
    EXPECT_EQ(figure.elements, figure.tensor == "proj output gradient" ? 2U * kRows * kCols : 0U) << figure.tensor;
  }
}

/// produce_and_cast equals computing the matrix and then casting it: in the first step and in later ones, with the
/// plain matrix kept or not.
TEST(Quantizer, MakingAndCastingAtOnceIsTheSame) {
  for (const auto kind : {deck::Recipe::delayed, deck::Recipe::current, deck::Recipe::block, deck::Recipe::mxfp8}) {
    const auto recipe = tests::recipe_of(kind);
    for (const bool keep : {false, true}) {
      State once(recipe), twice(recipe);
      const Site site{0, fp8::Linear::fc2, Role::input};
      for (int step = 0; step < 3; ++step) {
        const Operands a = allocate(once, recipe, site.role), b = allocate(twice, recipe, site.role);
        const Tensor x = random_rows(once, DType::bf16);
        const Tensor made = once.arena.allocate(x.shape, x.dtype), plain = twice.arena.allocate(x.shape, x.dtype);
        kernels::fill_zero(once.exec, made);
        once.quantizer.produce_and_cast(site, a, made, keep, Quantizer::Tokens::part,
                                        [&](const kernels::Outputs& out) { kernels::gelu_forward(once.exec, out, x); });
        kernels::gelu_forward(twice.exec, plain, x);
        twice.quantizer.cast(site, b, plain, Quantizer::Tokens::part);
        SCOPED_TRACE(step);
        expect_same_bytes(a.rowwise, b.rowwise);
        expect_same_bytes(a.columnwise, b.columnwise);
        if (keep || once.state.scaled_by_own_amax(site)) {
          EXPECT_EQ(std::memcmp(made.data, plain.data, plain.bytes()), 0);
        }
        once.end_step();
        twice.end_step();
      }
      expect_same_counts(once, twice);
      const unsigned copies = recipe.two_copies(site.role) ? 2 : 1;
      for (const auto& got : once.state.figures(once.exec))
        EXPECT_EQ(got.elements, got.tensor == "fc2 input" ? 3U * copies * kRows * kCols : 0U);
    }
  }
}

/// On a device the kernel that computes a matrix also casts it in blocks of 128, for each purpose: the same bytes and
/// counts as a cast afterwards. A copy that the purpose does not ask for is not written.
TEST(Quantizer, KernelsOfDevicesCastInBlocks) {
  auto recipe = tests::recipe_of(deck::Recipe::block);
  recipe.transposes = true;
  const Site site{0, fp8::Linear::fc2, Role::input};
  using Purpose = Quantizer::Purpose;
  for (const auto purpose : {Purpose::both_passes, Purpose::forward_pass, Purpose::recomputed}) {
    SCOPED_TRACE(static_cast<int>(purpose));
    State once(recipe), twice(recipe);
    const Operands a = allocate(once, recipe, site.role), b = allocate(twice, recipe, site.role);
    for (const Operands& of : {a, b})
      for (const tensor::Operand& copy : {of.rowwise, of.columnwise}) {
        std::memset(copy.data.data, 0x55, copy.data.bytes());
        std::memset(copy.scale_inv.data, 0x55, copy.scale_inv.bytes());
      }
    const Tensor x = random_rows(once, DType::bf16);
    const Tensor made = once.arena.allocate(x.shape, x.dtype), plain = twice.arena.allocate(x.shape, x.dtype);
    int kernels_run = 0;
    once.quantizer.produce_and_cast(
        site, a, made, false, Quantizer::Tokens::part,
        [&](const kernels::Outputs& out) {
          ++kernels_run;
          EXPECT_EQ(out.blocks.rowwise.empty(), purpose == Purpose::recomputed);
          EXPECT_EQ(out.blocks.columnwise.empty(), purpose == Purpose::forward_pass);
          kernels::gelu_forward(once.exec, out, x);
        },
        purpose);
    EXPECT_EQ(kernels_run, 1);
    kernels::gelu_forward(twice.exec, plain, x);
    twice.quantizer.cast(site, b, plain, Quantizer::Tokens::part, purpose);
    expect_same_bytes(a.rowwise, b.rowwise);
    expect_same_bytes(a.columnwise, b.columnwise);
    once.end_step();
    twice.end_step();
    expect_same_counts(once, twice);
  }
}

}  // namespace
}  // namespace shard8
