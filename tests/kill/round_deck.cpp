// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/kill/round_deck.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace shard8::test {

namespace {

struct Mesh {
  int replicate, shard, tensor;
};

/// The number of which the sizes of FP8 products on a rank must be multiples (docs/fp8.md).
int multiple(std::string_view recipe) { return recipe == "block" ? 128 : recipe == "mxfp8" ? 32 : 16; }

}  // namespace

RoundDeck draw_round_deck(Draw& draw) {
  constexpr Mesh kMeshes[] = {{1, 2, 1}, {1, 1, 2}, {2, 1, 1}, {1, 3, 1}, {3, 1, 1}, {1, 2, 2}, {2, 2, 1}, {1, 4, 1}};
  constexpr std::string_view kRecipes[] = {"none", "none", "delayed", "current", "block", "mxfp8"};
  const Mesh mesh = draw.one_of(kMeshes);
  const std::string_view recipe = draw.one_of(kRecipes);
  const int g = multiple(recipe), layers = static_cast<int>(draw.between(1, 2));
  const int data_ranks = mesh.replicate * mesh.shard;
  const bool bf16 = recipe != "none" || draw.chance(0.5);
  const auto yes = [&](double probability) { return draw.chance(probability) ? "true" : "false"; };
  RoundDeck deck;
  deck.ranks = data_ranks * mesh.tensor;
  deck.steps = draw.between(16, 30);
  deck.every = draw.between(1, 4);
  deck.keep = draw.between(1, 3);
  const int width = std::max(2, g / 16) * 8;  // of a head; two heads on each tensor rank
  deck.text = fmt::format(
      "model:      {{arch: {}, hidden: {}, ffn: {}, layers: {}, heads: {}, vocab: 200, seq: {}, tie_embeddings: {}}}\n",
      draw.one_of({"llama", "gpt2"}), 2 * width * mesh.tensor, g * mesh.tensor, layers, 2 * mesh.tensor,
      g * mesh.tensor, yes(0.5));
  deck.text +=
      fmt::format("mesh:       {{replicate: {}, shard: {}, tensor: {}}}\n", mesh.replicate, mesh.shard, mesh.tensor);
  deck.text += fmt::format("precision:  {{compute: {}}}\n", bf16 ? "bf16" : "fp32");
  if (recipe != "none")
    deck.text += fmt::format("fp8:        {{recipe: {}, weights: {}, amax_history: {}}}\n", recipe,
                             draw.one_of({"fp8", "fp8", "bf16"}), draw.between(1, 4));
  deck.text +=
      fmt::format("fsdp:       {{reshard_after_forward: {}, prefetch: {}}}\n", yes(0.5), draw.between(0, layers));
  deck.text +=
      fmt::format("optimizer:  {{lr: 0.003, warmup: 3, clip: {}, master: {}, moments: {}}}\n", draw.one_of({0, 1}),
                  bf16 && draw.chance(0.4) ? "bf16_remainder" : "fp32", draw.one_of({"fp32", "bf16"}));
  deck.text += fmt::format("data:       {{kind: synthetic, batch: {}, micro_batch: 1}}\n",
                           data_ranks * draw.between(1, recipe == "block" ? 1 : 2));
  deck.text += fmt::format("run:        {{steps: {}, log_every: 1000}}\n", deck.steps);
  deck.text += fmt::format("checkpoint: {{every: {}, keep: {}, async: {}, files: {}}}\n", deck.every, deck.keep,
                           yes(0.6), draw.one_of({"rank", "node"}));
  return deck;
}

}  // namespace shard8::test
