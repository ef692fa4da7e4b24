// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <mpi.h>

#include <array>
#include <string>
#include <vector>

#include "deck/load.hpp"

namespace shard8::test {

/// The settings that tests of whole steps vary.
struct Variant {
  std::array<int, 3> mesh = {1, 1, 1};
  const char* arch = "llama";
  bool tied = false;
  int micro_batch = 0;
  int prefetch = 1;
  bool reshard = true;
  const char* recompute = "none";
  const char* compute = "fp32";
  const char* gather = "auto";
  const char* reduce = "fp32";
};

inline std::string name_of(const Variant& v) {
  return fmt::format(
      "{}{}, mesh {}x{}x{}, micro_batch {}, prefetch {}, reshard {}, recompute {}, compute {}, gather {}, "
      "reduce {}",
      v.arch, v.tied ? " tied" : "", v.mesh[0], v.mesh[1], v.mesh[2], v.micro_batch, v.prefetch, v.reshard, v.recompute,
      v.compute, v.gather, v.reduce);
}

inline int ranks_of(const Variant& v) { return v.mesh[0] * v.mesh[1] * v.mesh[2]; }

/// A small deck. Wherever the checks allow it, sizes do not divide: the vocabulary by tensor ranks, the batch by data
/// ranks, rows by shards.
inline deck::Config small_deck(const Variant& v, int steps = 3, const std::string& extra = "",
                               const std::string& optimizer = "") {
  const bool llama = std::string(v.arch) == "llama";
  const std::string text =
      fmt::format(R"(
model: {{arch: {}, hidden: 48, ffn: 96, layers: 3, heads: 4, kv_heads: {}, vocab: 67, seq: 8, tie_embeddings: {}, recompute: {}}}
mesh: {{replicate: {}, shard: {}, tensor: {}}}
precision: {{compute: {}, reduce: {}}}
fsdp: {{reshard_after_forward: {}, prefetch: {}, gather: {}}}
optimizer: {{lr: 0.01, warmup: 1, decay_steps: 100{}}}
data: {{kind: synthetic, batch: 7, micro_batch: {}}}
run: {{steps: {}}}
{})",
                  v.arch, llama && v.mesh[2] < 4 ? 2 : 4, v.tied, v.recompute, v.mesh[0], v.mesh[1], v.mesh[2],
                  v.compute, v.reduce, v.reshard, v.prefetch, v.gather, optimizer, v.micro_batch, steps, extra);
  return deck::load_text(text, "small.yaml").config;
}

inline int world_size() {
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  return ranks;
}

/// Values of the deck's group overlap, for tests with several tensor ranks: all, and each exchange alone or left out.
inline constexpr const char* kOverlaps[] = {
    "overlap: {enable: true}\n",
    "overlap: {enable: true, qkv_dgrad: off, fc1_wgrad: off, head_dgrad: off, proj_dgrad: off, "
    "fc1_fprop: off, proj_fprop: off, head_fprop: off}\n",
    "overlap: {enable: true, qkv_wgrad: off, fc1_dgrad: off, head_dgrad: bulk, fc2_dgrad: off, "
    "qkv_fprop: off, fc2_fprop: off, head_fprop: direct}\n",
};
/// All that can be a ring, on hosts. With more than two tensor ranks its sums have other bits.
inline constexpr const char* kRing =
    "overlap: {enable: true, qkv_fprop: ring, proj_fprop: ring, fc1_fprop: ring, fc2_fprop: ring, head_fprop: ring}\n";

/// The variants for as many ranks as the program has.
inline std::vector<Variant> here(std::vector<Variant> variants) {
  std::erase_if(variants, [](const Variant& v) { return ranks_of(v) != world_size(); });
  return variants;
}

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
  const char* overlap = "";  ///< the deck's group, with its name; of kOverlaps
  const char* format = "auto";
};

inline std::string name_of(const Fp8Variant& v) {
  return fmt::format(
      "{} {}, format {}, mesh {}x{}x{}, micro_batch {}, reshard {}, recompute {}, weights {}, gather {}, {}", v.arch,
      v.recipe, v.format, v.mesh[0], v.mesh[1], v.mesh[2], v.micro_batch, v.reshard, v.recompute, v.weights, v.gather,
      v.compute);
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
fp8: {{recipe: {}, format: {}, weights: {}{}}}
fsdp: {{reshard_after_forward: {}, prefetch: {}, gather: {}}}
optimizer: {{lr: 0.002, warmup: 5, decay_steps: 100{}}}
data: {{kind: synthetic, batch: {}, micro_batch: {}}}
run: {{steps: {}}}
{})",
                  v.arch, layers, v.recompute, v.mesh[0], v.mesh[1], v.mesh[2], v.compute, v.recipe, v.format,
                  v.weights, fp8, v.reshard, v.prefetch, v.gather, extra, batch, v.micro_batch, steps, v.overlap);
  return deck::load_text(text, "fp8.yaml").config;
}

/// The meshes of tests that stop a training and go on.
inline constexpr std::array<std::array<int, 3>, 7> kResumedMeshes = {
    {{1, 1, 1}, {1, 2, 1}, {1, 1, 2}, {2, 1, 1}, {1, 3, 1}, {1, 2, 2}, {2, 2, 1}}};

/// A training and what it is called in messages.
struct Case {
  std::string name;
  deck::Config config;
};

/// An FP8 training of which a stop must keep everything. `bf16`: weights in BF16, masters with a remainder, moments in
/// BF16; else FP8 weights, FP32 masters and moments.
inline Case resumed_fp8_case(const std::array<int, 3>& mesh, const std::string& recipe, const char* arch, bool bf16,
                             int steps) {
  Fp8Variant v;
  v.mesh = mesh;
  v.recipe = recipe.c_str();
  v.arch = mesh[2] == 2 ? "gpt2" : arch;
  v.weights = bf16 ? "bf16" : "fp8";
  // Block scales need 128 tokens of a micro-batch on each tensor rank: one sequence for each.
  const int batch = mesh[2] == 1 ? 2 : mesh[2] * mesh[0] * mesh[1];
  return {name_of(v), fp8_deck(v, steps, 2, batch, recipe == "delayed" ? ", amax_history: 2" : "",
                               bf16 ? ", master: bf16_remainder, moments: bf16" : "")};
}

/// Whether the program has as many ranks as the mesh.
inline bool has_ranks_of(const std::array<int, 3>& mesh) { return mesh[0] * mesh[1] * mesh[2] == world_size(); }

}  // namespace shard8::test
