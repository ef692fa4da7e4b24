// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "tests/train/training.hpp"

// Trains twenty steps from Hugging Face Transformers' initial weights on its tokens, and compares with its results (see
// tests/gold/README.md). Tolerances: two right FP32 runs of the reference itself differ by 2e-7 (losses), 1e-6 (norms),
// 1e-6 (first gradients) and 3e-5 (final weights).

namespace shard8 {
namespace {

struct Variant {
  std::array<int, 3> mesh;
  int micro_batch;
  bool reshard;
  const char* recompute;
  const char* overlap = "";  ///< keys of the deck's group
};

constexpr const char* kAuto = "enable: true";
constexpr const char* kRing =
    "enable: true, qkv_fprop: ring, proj_fprop: ring, fc1_fprop: ring, fc2_fprop: ring, head_fprop: ring";

std::string name_of(const Variant& v) {
  return fmt::format("mesh {}x{}x{}, micro_batch {}, reshard {}, recompute {}, overlap {}", v.mesh[0], v.mesh[1],
                     v.mesh[2], v.micro_batch, v.reshard, v.recompute, v.overlap);
}

/// The keys of the group model in which the references differ. `name`: that of the reference's file.
std::string model_of(const std::string& name) {
  if (name == "gpt2") return "arch: gpt2, ffn: 256, kv_heads: 4";
  if (name == "llama") return "arch: llama, ffn: 192, kv_heads: 2";
  SHARD8_REQUIRE(name == "qwen3", "there is no reference '{}'", name);
  return "arch: llama, ffn: 96, kv_heads: 2, head_dim: 32, qk_norm: true, rope_theta: 1e6, norm_eps: 1e-6, "
         "tie_embeddings: true";
}

deck::Config config_for(const std::string& name, const Variant& v) {
  const std::string gold = fmt::format("{}/tests/gold/{}_tiny.h5", SHARD8_SOURCE_DIR, name);
  const std::string text = fmt::format(R"(
model: {{{}, hidden: 64, layers: 2, heads: 4, vocab: 256, seq: 32, init_file: "{}:/init", recompute: {}}}
mesh: {{replicate: {}, shard: {}, tensor: {}}}
precision: {{compute: fp32}}
fsdp: {{reshard_after_forward: {}}}
overlap: {{{}}}
optimizer: {{lr: 0.003, min_lr: 0.0003, warmup: 4}}
data: {{kind: tokens, path: "{}:/tokens", batch: 8, micro_batch: {}}}
run: {{steps: 20}}
)",
                                       model_of(name), gold, v.recompute, v.mesh[0], v.mesh[1], v.mesh[2], v.reshard,
                                       v.overlap, gold, v.micro_batch);
  return deck::load_text(text, "golden.yaml").config;
}

std::vector<double> read_vector(io::IoThread& io, const std::string& arch, const std::string& name) {
  const auto file = io::open_tensor_file(io, fmt::format("{}/tests/gold/{}_tiny.h5:/", SHARD8_SOURCE_DIR, arch));
  std::vector<float> values(20);
  file->read_box(name, {0, 20, 0, 1}, values.data(), 1);
  return {values.begin(), values.end()};
}

double relative(double a, double b) { return std::abs(a - b) / std::abs(b); }

void run(const std::string& arch, const Variant& v, const std::vector<double>& alone) {
  SCOPED_TRACE(arch + ", " + name_of(v));
  test::Training training(config_for(arch, v), MPI_COMM_WORLD);
  const std::string gold = fmt::format("{}/tests/gold/{}_tiny.h5", SHARD8_SOURCE_DIR, arch);
  const auto grad0 = io::open_tensor_file(training.io(), gold + ":/grad0");
  const auto final = io::open_tensor_file(training.io(), gold + ":/final");
  const auto loss = read_vector(training.io(), arch, "loss");
  const auto norm = read_vector(training.io(), arch, "grad_norm");
  // The gradient of GPT-2's key biases, the second third of c_attn.bias, is zero in exact arithmetic. Its rounding
  // noise makes Adam take steps of full size, so these rows are not compared.
  const auto noise = [](const std::string& name, std::int64_t row) {
    return name.ends_with("c_attn.bias") && row >= 64 && row < 128;
  };

  auto results = training.run(0, 1);
  for (const auto& d : test::compare(training, test::What::gradient, *grad0, MPI_COMM_WORLD))
    EXPECT_LE(d.relative(), 5e-6) << "first gradient of " << d.name;
  for (const auto& r : training.run(1, 19)) results.push_back(r);

  double worst_loss = 0, worst_norm = 0, worst_mesh = 0, worst_final = 0;
  for (std::size_t s = 0; s < 20; ++s) {
    worst_loss = std::max(worst_loss, relative(results[s].loss, loss[s]));
    worst_norm = std::max(worst_norm, relative(results[s].gradient_norm, norm[s]));
    worst_mesh = std::max(worst_mesh, relative(results[s].loss, alone[s]));
    EXPECT_LE(relative(results[s].loss, loss[s]), 2e-6) << "loss of step " << s;
    EXPECT_LE(relative(results[s].gradient_norm, norm[s]), 1e-5) << "gradient norm of step " << s;
    // Half of 2e-6, so that any two meshes agree to 2e-6.
    EXPECT_LE(relative(results[s].loss, alone[s]), 1e-6) << "loss of step " << s << " against one rank";
  }
  for (const auto& d : test::compare(training, test::What::master, *final, MPI_COMM_WORLD, noise)) {
    worst_final = std::max(worst_final, d.relative());
    EXPECT_LE(d.relative(), 1e-4) << "final " << d.name;
  }
  if (training.mesh().world.rank() == 0)
    fmt::print("{}, {}: loss {:.1e} (one rank {:.1e}), norm {:.1e}, final {:.1e}\n", arch, name_of(v), worst_loss,
               worst_mesh, worst_norm, worst_final);
}

std::vector<double> run_alone(const std::string& arch) {
  test::Training training(config_for(arch, {{1, 1, 1}, 0, true, "none"}), MPI_COMM_SELF);
  std::vector<double> losses;
  for (const auto& r : training.run(0, 20)) losses.push_back(r.loss);
  return losses;
}

using Mesh = std::array<int, 3>;

int ranks_of(const Mesh& mesh) { return mesh[0] * mesh[1] * mesh[2]; }

std::vector<Mesh> meshes(const std::string& arch) {
  std::vector<Mesh> all = {{1, 1, 1}, {1, 2, 1}, {1, 1, 2}, {1, 2, 2}, {2, 2, 1},
                           {2, 1, 2}, {1, 3, 1}, {1, 5, 1}, {2, 1, 1}};
  if (arch == "gpt2") all.push_back({1, 1, 4});
  return all;
}

/// All settings of one mesh; micro_batch 0: all sequences of a data rank.
std::vector<Variant> all_variants(const Mesh& mesh) {
  std::vector<Variant> variants;
  for (const int micro_batch : {1, 3, 0})
    for (const bool reshard : {true, false})
      for (const char* recompute : {"none", "selective", "full"})
        variants.push_back({mesh, micro_batch, reshard, recompute, mesh[2] > 1 && reshard ? kAuto : ""});
  if (mesh[2] > 1 && !tensor::kDevice) variants.push_back({mesh, 1, true, "selective", kRing});
  return variants;
}

/// Two of nine settings that together cover every pair of values; mesh `number` gets settings 2·number and 2·number
/// + 1.
std::vector<Variant> covering_variants(const Mesh& mesh, std::size_t number) {
  constexpr std::array<int, 3> kMicroBatches = {0, 1, 3};
  constexpr std::array<const char*, 3> kRecompute = {"none", "selective", "full"};
  std::vector<Variant> variants;
  for (std::size_t i = 2 * number; i < 2 * number + 2; ++i) {
    const std::size_t m = i / 3 % 3, r = i % 3;
    variants.push_back(
        {mesh, kMicroBatches[m], (m + r) % 2 == 0, kRecompute[r], mesh[2] > 1 && i % 2 == 1 ? kAuto : ""});
  }
  if (mesh[2] > 1 && !tensor::kDevice) variants.push_back({mesh, 3, true, "full", kRing});
  return variants;
}

void run_variants(const std::string& arch) {
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const auto alone = run_alone(arch);
  const auto all = meshes(arch);
  int runs = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (ranks_of(all[i]) != ranks) continue;
    for (const Variant& v : SHARD8_GOLDEN_ALL ? all_variants(all[i]) : covering_variants(all[i], i)) {
      run(arch, v, alone);
      ++runs;
    }
  }
  ASSERT_GT(runs, 0);
}

TEST(Llama, EqualsTheReference) { run_variants("llama"); }
TEST(Gpt2, EqualsTheReference) { run_variants("gpt2"); }
TEST(Qwen3, EqualsTheReference) { run_variants("qwen3"); }

}  // namespace
}  // namespace shard8
