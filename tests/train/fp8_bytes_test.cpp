// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "tests/train/decks.hpp"
#include "tests/train/training.hpp"

// Bytes of the linears' weights that a step moves and that a rank holds, for BF16 and for every recipe. The
// communicator and the arenas count them; docs/fp8.md shows them.

namespace shard8 {
namespace {

using tensor::MemoryKind;

constexpr int kLayers = 3, kLinears = 4 * kLayers;

deck::Config deck_for(const std::string& recipe, int shards) {
  const std::string text = fmt::format(R"(
model: {{arch: llama, hidden: 512, ffn: 512, layers: {}, heads: 4, kv_heads: 4, vocab: 256, seq: 128}}
mesh: {{shard: {}}}
fp8: {{recipe: {}}}
optimizer: {{lr: 0.001}}
data: {{kind: synthetic, batch: 4}}
run: {{steps: 1}}
)",
                                       kLayers, shards, recipe);
  return deck::load_text(text, "bytes.yaml").config;
}

struct Figures {
  std::uint64_t calls = 0;         ///< gathers of layers that the log counted in a step
  std::uint64_t communicated = 0;  ///< bytes of linears' weights and scales that these gathers moved
  std::uint64_t layer = 0;         ///< bytes of one layer's linears' weights and scales in the gather buffer
  std::uint64_t kept = 0;          ///< bytes of a rank's stored FP8 shards
  tensor::MemoryBytes arenas{};
  int slots = 0;
};

Figures measure(const std::string& recipe) {
  test::Training training(deck_for(recipe, test::world_size()), MPI_COMM_WORLD);
  training.log().clear();
  training.run(0, 1);
  Figures f;
  const auto& state = training.trainer().state();
  const auto& setup = training.setup();
  const int unit = model::layer_unit(0);
  const auto& gather = state.units.gather();
  f.slots = gather.rotating_slots();
  const auto& place = gather.place(0, gather.copy_of(unit, fsdp::Pass::forward));
  const auto& parameters = setup.units[static_cast<std::size_t>(unit)].parameters;
  std::uint64_t norms = 0;
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    place.communicated[p].for_each_tensor(
        [&](const tensor::Tensor& t) { (parameters[p].linear ? f.layer : norms) += t.bytes(); });
    for (int l = 0; l < kLayers && parameters[p].linear; ++l)
      state.units.weights(model::layer_unit(l))[p].stored.for_each_tensor(
          [&](const tensor::Tensor& t) { f.kept += t.bytes(); });
  }
  // In BF16 the log counts a layer's norms together with its linears.
  for (const auto& [key, stats] : training.log().entries()) {
    if (key.op != profile::Collective::all_gather) continue;
    const bool layer = recipe == "none" && key.bytes == f.layer + norms;
    if (layer || key.dtype == "e4m3") f.calls += stats.calls;
    if (layer) f.communicated += (key.bytes - norms) * stats.calls;
    if (key.dtype != "bf16") f.communicated += key.bytes * stats.calls;
  }
  f.arenas = state.arenas.bytes();
  return f;
}

std::size_t arena(const Figures& f, MemoryKind kind) { return f.arenas[static_cast<std::size_t>(kind)]; }

/// The figures of all runs of the deck, that with BF16 first.
std::vector<std::pair<std::string, Figures>> all_figures() {
  std::vector<std::pair<std::string, Figures>> rows;
  for (const char* recipe : {"none", "delayed", "current", "block", "mxfp8"})
    rows.emplace_back(recipe, measure(recipe));
  return rows;
}

TEST(Fp8Bytes, HalfOfBf16) {
  if (test::world_size() < 2) GTEST_SKIP() << "one rank gathers nothing";
  const auto rows = all_figures();
  const Figures& bf16 = rows[0].second;
  EXPECT_EQ(bf16.communicated, bf16.calls * bf16.layer);
  for (std::size_t i = 1; i < rows.size(); ++i) {
    const auto& [recipe, f] = rows[i];
    SCOPED_TRACE(recipe);
    // There is one scale for a tensor, for a block of 128x128, or for 32 elements. With mxfp8 the copies for forward
    // and backward differ, so the layers with which backward begins are gathered a second time.
    const std::uint64_t elements = bf16.layer / 2 * f.calls;
    const std::uint64_t scales = recipe == "block" ? elements / (128 * 128) * 4 : recipe == "mxfp8" ? elements / 32 : 0;
    EXPECT_EQ(f.communicated, elements + scales);
    if (recipe == "delayed" || recipe == "current") {
      EXPECT_LE(f.communicated, bf16.communicated / 2 + 4 * kLinears);
    }
    EXPECT_EQ(f.calls == bf16.calls, recipe != "mxfp8");
    EXPECT_EQ(f.layer, (elements + scales) / f.calls);
    // The arenas grew by the bytes of the tensors, apart from alignment.
    const double saved = static_cast<double>(arena(rows[0].second, MemoryKind::gathered)) -
                         static_cast<double>(arena(f, MemoryKind::gathered));
    EXPECT_NEAR(saved, static_cast<double>(f.slots) * static_cast<double>(bf16.layer - f.layer), 256.0 * 16 * f.slots);
    const auto grown = arena(f, MemoryKind::weights) - arena(bf16, MemoryKind::weights);
    EXPECT_GE(grown, f.kept);
    EXPECT_LE(grown, f.kept + 256 * 64 + 4096 * 3 * kLinears);  // scaling state and alignment
  }
}

/// The table in docs/fp8.md; SHARD8_REWRITE=1 rewrites it.
TEST(Fp8Bytes, TableOfTheDocuments) {
  if (test::world_size() != 2) GTEST_SKIP() << "the table is of two shards";
  const auto rows = all_figures();
  std::string table = fmt::format(
      "recipe | all-gathered a step, bytes | of BF16 | gathers of a layer a step | a layer as gathered, bytes | of "
      "BF16 | FP8 "
      "shards kept by a rank, bytes\n---|--:|--:|--:|--:|--:|--:\n");
  const Figures& bf16 = rows[0].second;
  for (const auto& [recipe, f] : rows)
    table += fmt::format("{} | {} | {:.4f} | {} | {} | {:.4f} | {}\n", recipe == "none" ? "none (BF16)" : recipe,
                         f.communicated, static_cast<double>(f.communicated) / static_cast<double>(bf16.communicated),
                         f.calls, f.layer, static_cast<double>(f.layer) / static_cast<double>(bf16.layer), f.kept);
  if (int rank = 0; MPI_Comm_rank(MPI_COMM_WORLD, &rank) == MPI_SUCCESS && rank != 0) return;
  const std::string path = std::string(SHARD8_SOURCE_DIR) + "/docs/fp8.md";
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  const std::string document = text.str(), begin = "<!-- begin: bytes -->\n", end = "<!-- end: bytes -->";
  const auto first = document.find(begin), last = document.find(end);
  ASSERT_NE(first, std::string::npos);
  ASSERT_NE(last, std::string::npos);
  const auto from = first + begin.size();
  if (std::getenv("SHARD8_REWRITE") != nullptr)
    std::ofstream(path) << document.substr(0, from) << table << document.substr(last);
  else
    EXPECT_EQ(document.substr(from, last - from), table) << "rewrite it with SHARD8_REWRITE=1";
}

}  // namespace
}  // namespace shard8
