// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <array>

#include "model/activations.hpp"
#include "tests/model/fp8_module.hpp"

// What a layer keeps between forward and backward, counted by arenas that only measure.

namespace shard8 {
namespace {

using deck::Recompute;
using model::Dims;
using model::LayerMemory;
using tensor::Arena;
using tests::Fp8Setting;

std::int64_t saved_bytes(const Dims& d, Recompute recompute, const fp8::Recipe& recipe, std::int64_t layer = 0) {
  Arena once = Arena::measure("shared", tensor::MemoryKind::activations);
  Arena arena = Arena::measure("saved", tensor::MemoryKind::activations);
  LayerMemory memory(d, recompute, recipe, 2, once);
  memory.allocate_scratch({}, {}, {}, once);
  memory.allocate_saved(layer, arena);
  return static_cast<std::int64_t>(arena.used());
}

/// LayerMemory::kept_bytes: {inputs of linears, attention's result that is kept in addition to its cast}.
std::array<std::int64_t, 2> kept_bytes(const Dims& d, Recompute recompute, const fp8::Recipe& recipe) {
  Arena arena = Arena::measure("layer", tensor::MemoryKind::activations);
  LayerMemory memory(d, recompute, recipe, 2, arena);
  memory.allocate_scratch({}, {}, {}, arena);
  const auto kept = LayerMemory::kept_bytes(memory.allocate_saved(0, arena), recompute);
  return {static_cast<std::int64_t>(kept.linear_inputs), static_cast<std::int64_t>(kept.attention_results)};
}

std::int64_t aligned(std::int64_t bytes) { return (bytes + 255) / 256 * 256; }

std::int64_t bytes_of_scales(deck::Recipe kind, std::int64_t elements) {
  if (kind == deck::Recipe::block) return elements / 128 * 4;
  if (kind == deck::Recipe::mxfp8) return elements / 32;
  return 4;
}

void check(const Fp8Setting& setting, int tensor) {
  deck::ModelConfig model;
  model.arch = setting.of.arch;
  model.hidden = 512;
  model.ffn = 1024;
  model.heads = model.kv_heads = 4;
  model.vocab = 256;
  model.seq = 128;
  model.layers = 2;
  const Dims d = Dims::make(model, 4, tensor, tensor::DType::bf16);
  fp8::Recipe recipe = tests::recipe_of(setting);
  recipe.layers = 2;
  // Elements on this rank of the inputs of qkv, fc1, fc2, and last of proj.
  const std::array<std::int64_t, 4> inputs{512 / tensor * 512, 512 / tensor * 512, 512 * 1024 / tensor,
                                           512 * 512 / tensor};
  std::int64_t plain = 0, cast = 0, scales = 0;
  for (std::size_t i = 0; i < 3; ++i) plain += aligned(2 * inputs[i]);
  for (std::size_t i = 0; i < 3; ++i) cast += aligned(inputs[i]);
  EXPECT_EQ(2 * cast, plain);
  for (const std::int64_t n : inputs) scales += aligned(bytes_of_scales(setting.kind, n));
  // Attention's backward reads the plain heads, so their cast is kept in addition.
  const std::int64_t heads_cast = aligned(inputs[3]);
  const std::int64_t before = saved_bytes(d, Recompute::none, {}), after = saved_bytes(d, Recompute::none, recipe);
  EXPECT_EQ(before - after, plain - cast - heads_cast - scales);

  std::int64_t elements = 0, bytes = 0;
  for (const std::int64_t n : inputs) {
    elements += n;
    bytes += n + bytes_of_scales(setting.kind, n);
  }
  using Kept = std::array<std::int64_t, 2>;
  EXPECT_EQ(kept_bytes(d, Recompute::none, {}), (Kept{2 * elements, 0}));
  EXPECT_EQ(kept_bytes(d, Recompute::none, recipe), (Kept{bytes, 2 * inputs[3]}));
  EXPECT_EQ(kept_bytes(d, Recompute::selective, {}), (Kept{2 * inputs[3], 0}));
  EXPECT_EQ(kept_bytes(d, Recompute::selective, recipe), (Kept{0, 2 * inputs[3]}));
  EXPECT_EQ(kept_bytes(d, Recompute::full, recipe), (Kept{0, 0}));

  // No input that is recomputed is kept, and a layer that is not in FP8 keeps no casts.
  EXPECT_EQ(saved_bytes(d, Recompute::selective, recipe), before - plain);
  EXPECT_EQ(saved_bytes(d, Recompute::selective, {}), before - plain);
  EXPECT_EQ(saved_bytes(d, Recompute::full, recipe), 0);
  recipe.first_layer = recipe.layers = 1;
  EXPECT_EQ(saved_bytes(d, Recompute::none, recipe, 1), after);
  EXPECT_EQ(saved_bytes(d, Recompute::none, recipe, 0), before);
}

TEST(Fp8Memory, OfSavedInputsIsHalfOfBf16) {
  for (const Fp8Setting& setting : tests::fp8_settings(true))
    for (const int tensor : {1, 2, 4}) {
      SCOPED_TRACE(name_of(setting) + ", " + std::to_string(tensor) + " tensor ranks");
      check(setting, tensor);
    }
}

}  // namespace
}  // namespace shard8
