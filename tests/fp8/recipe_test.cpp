// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "fp8/scaling_state.hpp"

#include <gtest/gtest.h>

#include "fp8/quantizer.hpp"

namespace shard8 {
namespace {

using fp8::Recipe;
using fp8::Role;
using tensor::DType;
using tensor::Scaling;

Recipe recipe_of(deck::Recipe kind, deck::Fp8Format format) {
  deck::Config config;
  config.model.layers = 5;
  config.fp8.recipe = kind;
  config.fp8.format = format;
  config.fp8.first_layers_bf16 = 1;
  config.fp8.last_layers_bf16 = 2;
  config.fp8.power_of_2_scales = kind == deck::Recipe::block || kind == deck::Recipe::mxfp8;
  return Recipe::make(config);
}

TEST(Recipe, NoneCastsNothing) {
  const Recipe r = recipe_of(deck::Recipe::none, deck::Fp8Format::automatic);
  EXPECT_FALSE(r.on());
  EXPECT_FALSE(r.site(2, fp8::Linear::qkv).on());
  EXPECT_EQ(r.rowwise(Role::weight), Scaling::none);
  EXPECT_EQ(r.granularity(), 1);
}

TEST(Recipe, PerTensorHasOneCopyAndWideGradients) {
  for (const auto kind : {deck::Recipe::delayed, deck::Recipe::current}) {
    const Recipe r = recipe_of(kind, deck::Fp8Format::hybrid);
    EXPECT_TRUE(r.per_tensor());
    EXPECT_EQ(r.delayed(), kind == deck::Recipe::delayed);
    EXPECT_EQ(r.granularity(), 1);
    for (const Role role : {Role::input, Role::weight, Role::output_gradient}) {
      EXPECT_EQ(r.rowwise(role), Scaling::tensor);
      EXPECT_FALSE(r.two_copies(role));
      EXPECT_EQ(r.dtype(role), role == Role::output_gradient ? DType::e5m2 : DType::e4m3);
      EXPECT_EQ(r.rule(role).largest, role == Role::output_gradient ? 57344.0f : 448.0f);
    }
  }
}

TEST(Recipe, BlocksFollowTheSum) {
  const Recipe block = recipe_of(deck::Recipe::block, deck::Fp8Format::e4m3);
  EXPECT_EQ(block.rowwise(Role::weight), Scaling::tile_128);
  EXPECT_FALSE(block.two_copies(Role::weight));
  EXPECT_EQ(block.rowwise(Role::input), Scaling::row_128);
  EXPECT_EQ(block.columnwise(Role::output_gradient), Scaling::column_128);
  EXPECT_EQ(block.granularity(), 128);
  const Recipe mx = recipe_of(deck::Recipe::mxfp8, deck::Fp8Format::e4m3);
  EXPECT_EQ(mx.rowwise(Role::weight), Scaling::row_32);
  EXPECT_EQ(mx.columnwise(Role::weight), Scaling::column_32);
  EXPECT_EQ(mx.granularity(), 32);
  EXPECT_TRUE(mx.emulated());
  for (const Recipe& r : {block, mx})
    for (const Role role : {Role::input, Role::weight, Role::output_gradient}) EXPECT_EQ(r.dtype(role), DType::e4m3);
}

TEST(Recipe, HybridBlocksHaveWideGradients) {
  const Recipe r = recipe_of(deck::Recipe::block, deck::Fp8Format::hybrid);
  EXPECT_EQ(r.dtype(Role::input), DType::e4m3);
  EXPECT_EQ(r.dtype(Role::weight), DType::e4m3);
  EXPECT_EQ(r.dtype(Role::output_gradient), DType::e5m2);
  EXPECT_EQ(r.rowwise(Role::output_gradient), Scaling::row_128);
  EXPECT_EQ(r.columnwise(Role::output_gradient), Scaling::column_128);
}

TEST(Recipe, DevicesStoreWhatIsReadColumnwiseTransposed) {
  struct Row {
    deck::Recipe kind;
    bool input, gathered_input, gradient, gathered_gradient;
  };
  for (const Row& row : {Row{deck::Recipe::none, false, false, false, false},
                         {deck::Recipe::delayed, true, true, true, false},
                         {deck::Recipe::current, true, true, true, false},
                         {deck::Recipe::block, true, false, true, false},
                         {deck::Recipe::mxfp8, false, false, false, false}}) {
    Recipe r = recipe_of(row.kind, deck::Fp8Format::e4m3);
    r.transposes = true;
    EXPECT_EQ(r.transposed(Role::input, false), row.input);
    EXPECT_EQ(r.transposed(Role::input, true), row.gathered_input);
    EXPECT_EQ(r.transposed(Role::output_gradient, false), row.gradient);
    EXPECT_EQ(r.transposed(Role::output_gradient, true), row.gathered_gradient);
    r.transposes = false;
    EXPECT_FALSE(r.transposed(Role::input, false));
  }
}

TEST(Recipe, FirstAndLastLayersStayOut) {
  const Recipe r = recipe_of(deck::Recipe::current, deck::Fp8Format::hybrid);
  EXPECT_EQ(r.layers, 2);
  const int expected[] = {-1, 0, 1, -1, -1};
  for (int layer = 0; layer < 5; ++layer) EXPECT_EQ(r.site(layer, fp8::Linear::fc1).layer, expected[layer]);
}

TEST(CastBuffer, HoldsWhatItWasMadeFor) {
  auto arena = tensor::Arena::measure("test", tensor::MemoryKind::buffers);
  const fp8::CastBuffer buffer(arena, 256 * 384, Scaling::row_128);
  const auto wide = buffer.view(256, 384, DType::e4m3, Scaling::row_128);
  EXPECT_EQ(wide.scale_inv.shape, (tensor::Shape{256, 3}));
  const auto tall = buffer.view(384, 256, DType::e5m2, Scaling::column_128);
  EXPECT_EQ(tall.scale_inv.shape, (tensor::Shape{3, 256}));
  EXPECT_EQ(tall.data.dtype, DType::e5m2);
  EXPECT_THROW(buffer.view(257, 384, DType::e4m3, Scaling::row_128), base::Error);
  EXPECT_THROW(buffer.view(256, 100, DType::e4m3, Scaling::row_128), base::Error);
  EXPECT_EQ(tensor::scale_bytes(Scaling::tensor, 7), 4);
  EXPECT_EQ(tensor::scale_bytes(Scaling::row_32, 64), 2);
  EXPECT_EQ(tensor::scale_bytes(Scaling::none, 64), 0);
}

}  // namespace
}  // namespace shard8
