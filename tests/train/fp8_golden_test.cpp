// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string_view>

#include <algorithm>
#include <cmath>

#include "tests/train/decks.hpp"
#include "tests/train/training.hpp"

// Trains twenty steps with the linears in FP8, from Hugging Face Transformers' initial weights on its tokens, and
// compares the losses with its FP32 losses (see tests/gold/README.md).

namespace shard8 {
namespace {

constexpr double kAllowed = 0.03;

/// `experts`: ranks of an expert group; 0: a model without experts.
void run(const std::string& recipe, const std::string& compute, const std::array<int, 3>& mesh, int experts = 0) {
  const std::string gold = fmt::format("{}/tests/gold/{}_tiny.h5", SHARD8_SOURCE_DIR, experts > 0 ? "moe" : "llama");
  const std::string moe = experts > 0 ? "\nmoe: {experts: 8, experts_per_token: 2, balance: 0.01, capacity: 1}" : "";
  const std::string text = fmt::format(R"(
model: {{arch: llama, hidden: 64, ffn: {}, layers: 2, heads: 4, kv_heads: 2, vocab: 256, seq: 32, init_file: "{}:/init"}}{}
mesh: {{replicate: {}, shard: {}, tensor: {}, expert: {}}}
precision: {{compute: {}}}
fp8: {{recipe: {}}}
optimizer: {{lr: 0.003, min_lr: 0.0003, warmup: 4}}
data: {{kind: tokens, path: "{}:/tokens", batch: 8}}
run: {{steps: 20}}
)",
                                       experts > 0 ? 96 : 192, gold, moe, mesh[0], mesh[1], mesh[2],
                                       std::max(experts, 1), compute, recipe, gold);
  const std::string name =
      fmt::format("{}, {}, mesh {}x{}x{}, expert {}", recipe, compute, mesh[0], mesh[1], mesh[2], experts);
  SCOPED_TRACE(name);
  test::Training training(deck::load_text(text, "golden.yaml").config, MPI_COMM_WORLD);
  std::vector<float> want(20);
  io::open_tensor_file(training.io(), gold + ":/")->read_box("loss", {0, 20, 0, 1}, want.data(), 1);
  double worst = 0;
  for (const auto& r : training.run(0, 20)) {
    const double reference = static_cast<double>(want[static_cast<std::size_t>(r.step)]);
    const double error = std::abs(r.loss - reference) / reference;
    worst = std::max(worst, error);
    EXPECT_LE(error, kAllowed) << "loss of step " << r.step;
  }
  for (const auto& row : training.trainer().state().scaling.figures(training.exec()))
    EXPECT_GT(row.elements, 0U) << row.tensor << " was never cast";
  if (training.mesh().world.rank() == 0) fmt::print("{}: loss {:.2e}\n", name, worst);
}

TEST(Fp8Golden, LossesStayNear) {
  const std::array<int, 3> meshes[] = {{1, 1, 1}, {1, 2, 1}, {1, 1, 2}, {1, 2, 2}, {2, 2, 1}};
  for (const auto& mesh : meshes)
    if (mesh[0] * mesh[1] * mesh[2] == test::world_size())
      for (const char* recipe : {"delayed", "current"})
        for (const char* compute : {"fp32", "bf16"}) run(recipe, compute, mesh);
}

TEST(Fp8Golden, LossesOfExpertsStayNear) {
  const std::pair<std::array<int, 3>, int> meshes[] = {{{1, 1, 1}, 1}, {{1, 2, 1}, 2}, {{1, 1, 2}, 1},
                                                       {{1, 3, 1}, 1}, {{1, 2, 2}, 4}, {{2, 2, 1}, 2}};
  for (const auto& [mesh, experts] : meshes)
    if (mesh[0] * mesh[1] * mesh[2] == test::world_size())
      for (const char* recipe : {"delayed", "current", "mxfp8"}) {
        if (mesh[2] > 1 && std::string_view(recipe) == "mxfp8") continue;  // heads of 16 on each rank
        run(recipe, "bf16", mesh, experts);
      }
}

}  // namespace
}  // namespace shard8
