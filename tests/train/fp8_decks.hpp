// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <array>
#include <string>

#include "deck/load.hpp"
#include "tests/train/decks.hpp"

namespace shard8::test {

/// The settings that tests of FP8 trainings vary. Every recipe can cut the deck's sizes into blocks on every mesh.
struct Fp8Variant {
  std::array<int, 3> mesh = {1, 1, 1};
  const char* recipe = "current";
  int micro_batch = 0;
  bool reshard = true;
  const char* recompute = "none";
  const char* arch = "llama";
  const char* weights = "fp8";
  const char* gather = "auto";
  const char* compute = "bf16";
  int prefetch = 1;
};

inline std::string name_of(const Fp8Variant& v) {
  return fmt::format("{} {}, mesh {}x{}x{}, micro_batch {}, reshard {}, recompute {}, weights {}, gather {}, {}",
                     v.arch, v.recipe, v.mesh[0], v.mesh[1], v.mesh[2], v.micro_batch, v.reshard, v.recompute,
                     v.weights, v.gather, v.compute);
}

inline int ranks_of(const Fp8Variant& v) { return v.mesh[0] * v.mesh[1] * v.mesh[2]; }

/// `extra`: further groups of the deck.
inline deck::Config fp8_deck(const Fp8Variant& v, int steps, int layers = 2, int batch = 12,
                             const std::string& fp8 = "", const std::string& extra = "") {
  const std::string text =
      fmt::format(R"(
model: {{arch: {}, hidden: 256, ffn: 512, layers: {}, heads: 4, kv_heads: 4, vocab: 256, seq: 128, recompute: {}}}
mesh: {{replicate: {}, shard: {}, tensor: {}}}
precision: {{compute: {}}}
fp8: {{recipe: {}, weights: {}{}}}
fsdp: {{reshard_after_forward: {}, prefetch: {}, gather: {}}}
optimizer: {{lr: 0.002, warmup: 5, decay_steps: 100{}}}
data: {{kind: synthetic, batch: {}, micro_batch: {}}}
run: {{steps: {}}}
)",
                  v.arch, layers, v.recompute, v.mesh[0], v.mesh[1], v.mesh[2], v.compute, v.recipe, v.weights, fp8,
                  v.reshard, v.prefetch, v.gather, extra, batch, v.micro_batch, steps);
  return deck::load_text(text, "fp8.yaml").config;
}

}  // namespace shard8::test
