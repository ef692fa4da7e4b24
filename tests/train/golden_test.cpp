// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdlib>

#include "io/hdf5.hpp"
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
  int expert = 1;            ///< ranks of an expert group
  double capacity = 2;       ///< of a round of dispatch
};

constexpr const char* kAuto = "enable: true";
constexpr const char* kRing =
    "enable: true, qkv_fprop: ring, proj_fprop: ring, fc1_fprop: ring, fc2_fprop: ring, head_fprop: ring";

std::string name_of(const Variant& v) {
  return fmt::format("mesh {}x{}x{}, micro_batch {}, reshard {}, recompute {}, overlap {}, expert {}, capacity {}",
                     v.mesh[0], v.mesh[1], v.mesh[2], v.micro_batch, v.reshard, v.recompute, v.overlap, v.expert,
                     v.capacity);
}

struct Reference {
  const char* file;   ///< in tests/gold
  const char* model;  ///< the keys of the group model in which the references differ
  const char* moe = "";
  int experts = 0;
  /// The first step that is not compared, and nothing trained is compared then. With one expert a token the gradient of
  /// the router is 0; the reference has rounding noise in its place, 1e-10, which AdamW lets move the router by 1e-4 of
  /// its size, until a token chooses another expert.
  std::size_t compared = 20;
};

/// `name`: that of the tests.
Reference reference(const std::string& name) {
  if (name == "gpt2") return {"gpt2_tiny", "arch: gpt2, ffn: 256, kv_heads: 4"};
  if (name == "llama") return {"llama_tiny", "arch: llama, ffn: 192, kv_heads: 2"};
  if (name == "mixtral")
    return {"moe_tiny", "arch: llama, ffn: 96, kv_heads: 2", "experts: 8, experts_per_token: 2, balance: 0.01", 8};
  if (name == "mixtral_top1")
    return {"moe_top1", "arch: llama, ffn: 128, kv_heads: 4, tie_embeddings: true", "experts: 4, experts_per_token: 1",
            4, 18};
  if (name == "qwen3_moe")
    return {"qwen3_moe_tiny",
            "arch: llama, ffn: 48, kv_heads: 2, head_dim: 24, qk_norm: true, rope_theta: 1e6, norm_eps: 1e-6",
            "experts: 8, experts_per_token: 2", 8};
  SHARD8_REQUIRE(name == "qwen3", "there is no reference '{}'", name);
  return {"qwen3_tiny",
          "arch: llama, ffn: 96, kv_heads: 2, head_dim: 32, qk_norm: true, rope_theta: 1e6, norm_eps: 1e-6, "
          "tie_embeddings: true"};
}

std::string file_of(const std::string& name) {
  return fmt::format("{}/tests/gold/{}.h5", SHARD8_SOURCE_DIR, reference(name).file);
}

deck::Config config_for(const std::string& name, const Variant& v) {
  const std::string gold = file_of(name);
  const Reference r = reference(name);
  const std::string moe = r.experts > 0 ? fmt::format("moe: {{{}, capacity: {}}}", r.moe, v.capacity) : "";
  const std::string text = fmt::format(R"(
model: {{{}, hidden: 64, layers: 2, heads: 4, vocab: 256, seq: 32, init_file: "{}:/init", recompute: {}}}
{}
mesh: {{replicate: {}, shard: {}, tensor: {}, expert: {}}}
precision: {{compute: fp32}}
fsdp: {{reshard_after_forward: {}}}
overlap: {{{}}}
optimizer: {{lr: 0.003, min_lr: 0.0003, warmup: 4}}
data: {{kind: tokens, path: "{}:/tokens", batch: 8, micro_batch: {}}}
run: {{steps: 20}}
)",
                                       r.model, gold, v.recompute, moe, v.mesh[0], v.mesh[1], v.mesh[2], v.expert,
                                       v.reshard, v.overlap, gold, v.micro_batch);
  return deck::load_text(text, "golden.yaml").config;
}

std::vector<double> read_vector(io::IoThread& io, const std::string& arch, const std::string& name) {
  const auto file = io::open_tensor_file(io, file_of(arch) + ":/");
  std::vector<float> values(20);
  file->read_box(name, {0, 20, 0, 1}, values.data(), 1);
  return {values.begin(), values.end()};
}

/// By step, layer and expert: how many tokens chose the expert.
std::vector<std::int64_t> read_expert_rows(io::IoThread& io, const std::string& name) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(20 * 2 * reference(name).experts));
  const std::string path = file_of(name);
  io.call([&] {
    const io::H5Handle file(SHARD8_H5(path, H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT)), H5Fclose);
    const io::H5Handle data(SHARD8_H5(path, H5Dopen2(file.id(), "tokens_per_expert", H5P_DEFAULT)), H5Dclose);
    SHARD8_H5(path, H5Dread(data.id(), H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, rows.data()));
  });
  return rows;
}

double relative(double a, double b) { return std::abs(a - b) / std::abs(b); }

void run(const std::string& arch, const Variant& v, const std::vector<double>& alone) {
  SCOPED_TRACE(arch + ", " + name_of(v));
  test::Training training(config_for(arch, v), MPI_COMM_WORLD);
  const std::string gold = file_of(arch);
  const auto grad0 = io::open_tensor_file(training.io(), gold + ":/grad0");
  const auto final = io::open_tensor_file(training.io(), gold + ":/final");
  const auto loss = read_vector(training.io(), arch, "loss");
  const auto norm = read_vector(training.io(), arch, "grad_norm");
  // The gradient of GPT-2's key biases, the second third of c_attn.bias, is zero in exact arithmetic. Its rounding
  // noise makes Adam take steps of full size, so these rows are not compared.
  const Reference r = reference(arch);
  const auto noise = [&](const std::string& name, std::int64_t row) {
    if (r.compared < 20 && name.ends_with("gate.weight")) return true;
    return name.ends_with("c_attn.bias") && row >= 64 && row < 128;
  };

  const bool experts = r.experts > 0;
  const auto balance = experts ? read_vector(training.io(), arch, "balance") : std::vector<double>(20);
  const auto expert_rows = experts ? read_expert_rows(training.io(), arch) : std::vector<std::int64_t>();
  std::vector<train::StepResult> results;
  const auto train_step = [&](std::int64_t step) {
    const auto s = static_cast<std::size_t>(step);
    results.push_back(training.run(step, 1).front());
    if (!experts || s >= r.compared) return;
    const auto got = training.trainer().expert_rows();
    ASSERT_EQ(got.size() * 20, expert_rows.size());
    for (std::size_t i = 0; i < got.size(); ++i)
      EXPECT_EQ(static_cast<std::int64_t>(got[i]), expert_rows[s * got.size() + i])
          << "tokens of expert " << i << " in step " << s;
    const double error = balance[s] > 0 ? relative(results.back().experts->balance, balance[s]) : 0;
    EXPECT_LE(error, 1e-5) << "balance of step " << s;
  };
  train_step(0);
  for (const auto& d : test::compare(training, test::What::gradient, *grad0, MPI_COMM_WORLD, noise))
    EXPECT_LE(d.error_norm, 5e-6 * d.reference_norm) << "first gradient of " << d.name;
  for (std::int64_t step = 1; step < 20; ++step) train_step(step);

  double worst_loss = 0, worst_norm = 0, worst_mesh = 0, worst_final = 0;
  for (std::size_t s = 0; s < 20; ++s) {
    // Half of 2e-6, so that any two meshes agree to 2e-6.
    EXPECT_LE(relative(results[s].loss, alone[s]), 1e-6) << "loss of step " << s << " against one rank";
    worst_mesh = std::max(worst_mesh, relative(results[s].loss, alone[s]));
    if (s >= r.compared) continue;
    worst_loss = std::max(worst_loss, relative(results[s].loss, loss[s]));
    worst_norm = std::max(worst_norm, relative(results[s].gradient_norm, norm[s]));
    EXPECT_LE(relative(results[s].loss, loss[s]), 2e-6) << "loss of step " << s;
    EXPECT_LE(relative(results[s].gradient_norm, norm[s]), 1e-5) << "gradient norm of step " << s;
  }
  for (const auto& d : test::compare(training, test::What::master, *final, MPI_COMM_WORLD, noise)) {
    if (r.compared < 20) break;
    worst_final = std::max(worst_final, d.relative());
    EXPECT_LE(d.error_norm, 1e-4 * d.reference_norm) << "final " << d.name;
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
    for (const Variant& v :
         std::getenv("SHARD8_GOLDEN_ALL") != nullptr ? all_variants(all[i]) : covering_variants(all[i], i)) {
      run(arch, v, alone);
      ++runs;
    }
  }
  ASSERT_GT(runs, 0);
}

TEST(Llama, EqualsTheReference) { run_variants("llama"); }
TEST(Gpt2, EqualsTheReference) { run_variants("gpt2"); }
TEST(Qwen3, EqualsTheReference) { run_variants("qwen3"); }

/// Extents of expert groups on a mesh, for so many experts.
std::vector<int> expert_groups(const Mesh& mesh, int experts) {
  std::vector<int> groups;
  for (int ranks = 1; ranks <= mesh[1] * mesh[2]; ++ranks)
    if (mesh[1] * mesh[2] % ranks == 0 && experts % ranks == 0) groups.push_back(ranks);
  return groups;
}

/// Each mesh and expert group of as many ranks as there are, with settings that change from one to the next.
void run_experts(const std::string& name) {
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const auto alone = run_alone(name);
  constexpr std::array<int, 3> kMicroBatches = {0, 1, 3};
  constexpr std::array<const char*, 3> kRecompute = {"none", "selective", "full"};
  std::vector<Mesh> all = meshes(name);
  all.insert(all.end(), {{1, 4, 1}, {1, 8, 1}, {2, 2, 2}, {1, 4, 2}, {1, 3, 2}, {3, 3, 1}});
  std::size_t i = 0;
  for (const Mesh& mesh : all) {
    if (ranks_of(mesh) != ranks) continue;
    for (const int expert : expert_groups(mesh, reference(name).experts)) {
      for (const double capacity : {2.0, 1.0}) {
        Variant v{mesh, kMicroBatches[i % 3], i % 2 == 0, kRecompute[i / 3 % 3],
                  mesh[2] > 1 && i % 2 == 1 ? kAuto : ""};
        v.expert = expert;
        v.capacity = capacity;
        run(name, v, alone);
        ++i;
      }
    }
  }
  ASSERT_GT(i, 0U);
}

TEST(Mixtral, EqualsTheReference) { run_experts("mixtral"); }
TEST(MixtralTop1, EqualsTheReference) { run_experts("mixtral_top1"); }
TEST(Qwen3Moe, EqualsTheReference) { run_experts("qwen3_moe"); }

}  // namespace
}  // namespace shard8
