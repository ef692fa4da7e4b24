// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "train/state.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <utility>

#include "tensor/transfer.hpp"
#include "tests/support/execution.hpp"
#include "tests/train/decks.hpp"

// The lists of persistent tensors of all ranks of a mesh. The meshes exist only in this process.

namespace shard8 {
namespace {

using checkpoint::StateTensor;
using Mesh = std::array<int, 3>;

/// A rank of a mesh: its state, with memory or in measuring arenas, and its list of persistent tensors.
struct Rank {
  Rank(const deck::Config& config, int rank, bool memory)
      : setup(train::Setup::make(config, rank, 1)),
        place(setup.place),
        state(setup, memory ? tensor::ArenaSet(train::state_bytes(setup)) : tensor::ArenaSet::measure()),
        tensors(train::state_tensors(setup, state)) {}
  train::Setup setup;
  base::Place place;
  train::State state;
  std::vector<StateTensor> tensors;
};

std::vector<std::unique_ptr<Rank>> ranks_of(const deck::Config& config, bool memory) {
  std::vector<std::unique_ptr<Rank>> ranks;
  for (int r = 0; r < config.mesh.ranks(); ++r) ranks.push_back(std::make_unique<Rank>(config, r, memory));
  return ranks;
}

std::vector<std::pair<std::string, deck::Config>> decks() {
  std::vector<std::pair<std::string, deck::Config>> all;
  // Meshes with uneven and empty shards, and with vocabularies that do not divide by their ranks.
  for (const Mesh& mesh : {Mesh{1, 1, 1},
                           {1, 2, 1},
                           {1, 1, 2},
                           {1, 2, 2},
                           {1, 3, 1},
                           {2, 2, 1},
                           {2, 3, 2},
                           {1, 5, 4},
                           {1, 100, 1},
                           {3, 1, 4}})
    for (const char* arch : {"llama", "gpt2"})
      for (const bool tied : {true, false}) {
        test::Variant v;
        v.mesh = mesh;
        v.arch = arch;
        v.tied = tied;
        v.compute = tied ? "bf16" : "fp32";
        auto config = test::small_deck(v);
        if (tied) {
          config.optimizer.master = deck::Master::bf16_remainder;
          config.optimizer.moments = deck::FloatType::bf16;
        }
        all.emplace_back(test::name_of(v), config);
      }
  for (const Mesh& mesh : {Mesh{1, 1, 1}, {1, 3, 1}, {1, 2, 2}, {2, 4, 1}, {2, 1, 2}})
    for (const char* recipe : {"delayed", "current", "block", "mxfp8"})
      for (const char* arch : {"llama", "gpt2"})
        for (const char* weights : {"fp8", "bf16"}) {
          test::Fp8Variant v;
          v.mesh = mesh;
          v.recipe = recipe;
          v.arch = arch;
          v.weights = weights;
          all.emplace_back(test::name_of(v), test::fp8_deck(v, 1, 3, 24, ", first_layers_bf16: 1"));
        }
  return all;
}

TEST(StateTensors, RanksThatCountCoverEachTensorOnce) {
  for (const auto& [name, config] : decks()) {
    SCOPED_TRACE(name);
    const auto ranks = ranks_of(config, false);
    const auto& first = ranks.front()->tensors;
    std::vector<std::vector<std::uint8_t>> times;
    for (const StateTensor& t : first) times.emplace_back(static_cast<std::size_t>(t.shape.count()));
    for (const auto& rank : ranks) {
      ASSERT_EQ(rank->tensors.size(), first.size());
      for (std::size_t i = 0; i < first.size(); ++i) {
        const StateTensor& t = rank->tensors[i];
        ASSERT_EQ(t.label(), first[i].label());
        ASSERT_EQ(t.shape, first[i].shape) << t.label();
        ASSERT_EQ(t.dtype, first[i].dtype) << t.label();
        ASSERT_EQ(t.sharded, first[i].sharded) << t.label();
        const std::int64_t rows = t.shape[0], cols = t.shape.count() / rows;
        for (const auto& part : t.parts) {
          EXPECT_FALSE(part.box.empty()) << t.label();
          EXPECT_EQ(io::intersect(part.box, {0, rows, 0, cols}), part.box) << t.label();
          EXPECT_EQ(part.local.count(), part.box.count()) << t.label();
          EXPECT_EQ(part.local.rows(), part.transposed ? part.box.cols : part.box.rows) << t.label();
          EXPECT_EQ(part.local.dtype, t.dtype) << t.label();
          if (!t.counts(rank->place)) continue;
          for (std::int64_t r = 0; r < part.box.rows; ++r) {
            const auto begin = times[i].begin() + (part.box.row0 + r) * cols + part.box.col0;
            std::for_each(begin, begin + part.box.cols, [](std::uint8_t& n) { ++n; });
          }
        }
      }
    }
    for (std::size_t i = 0; i < first.size(); ++i)
      EXPECT_EQ(std::count(times[i].begin(), times[i].end(), 1), first[i].shape.count()) << first[i].label();
  }
}

TEST(StateTensors, HaveTheNamesAndShapesOfHuggingFace) {
  test::Fp8Variant v;
  const auto shapes_of = [&] {
    std::map<std::string, std::string> shapes;
    Rank rank(test::fp8_deck(v, 1, 1), {}, false);
    for (const StateTensor& t : rank.tensors)
      EXPECT_TRUE(shapes.emplace(t.label(), fmt::format("{} {}", tensor::name_of(t.dtype), to_string(t.shape))).second)
          << t.label() << " is listed twice";
    return shapes;
  };
  v.recipe = "block";
  auto llama = shapes_of();
  EXPECT_EQ(llama.at("model.layers.0.mlp.gate_proj.weight, master"), "fp32 (512, 256)");
  EXPECT_EQ(llama.at("model.layers.0.mlp.up_proj.weight, exp_avg_sq"), "fp32 (512, 256)");
  EXPECT_EQ(llama.at("model.layers.0.self_attn.k_proj.weight, fp8_rowwise"), "e4m3 (256, 256)");
  EXPECT_EQ(llama.at("model.layers.0.mlp.down_proj.weight, fp8_rowwise_scale_inv"), "fp32 (2, 4)");
  EXPECT_EQ(llama.at("model.norm.weight, master"), "fp32 (256)");
  EXPECT_EQ(llama.at("model.embed_tokens.weight, master"), "fp32 (256, 256)");
  EXPECT_EQ(llama.at("lm_head.weight, master"), "fp32 (256, 256)");
  // 12 names with a master and two moments; 7 of them in FP8 with scales.
  EXPECT_EQ(llama.size(), 12U * 3 + 7U * 2);
  v.recipe = "delayed";
  llama = shapes_of();
  EXPECT_EQ(llama.at("model.layers.0.self_attn.v_proj.weight, fp8_rowwise_scale_inv"), "fp32 (1)");
  EXPECT_EQ(llama.at("scaling_state, fp8_scale"), "fp32 (3, 4)");
  EXPECT_EQ(llama.at("scaling_state, fp8_amax_history"), "i32 (3072, 4)");
  EXPECT_EQ(llama.at("scaling_state, fp8_history_entries"), "i32 (3)");
  EXPECT_EQ(llama.size(), 12U * 3 + 7U * 2 + 3);
  v.recipe = "mxfp8";
  v.arch = "gpt2";
  const auto gpt2 = shapes_of();
  EXPECT_EQ(gpt2.at("transformer.h.0.attn.c_attn.weight, master"), "fp32 (256, 768)");
  EXPECT_EQ(gpt2.at("transformer.h.0.attn.c_attn.bias, master"), "fp32 (768)");
  EXPECT_EQ(gpt2.at("transformer.h.0.mlp.c_fc.weight, fp8_columnwise"), "e4m3 (256, 512)");
  EXPECT_EQ(gpt2.at("transformer.h.0.mlp.c_fc.weight, fp8_rowwise_scale_inv"), "e8m0 (8, 512)");
  EXPECT_EQ(gpt2.at("transformer.h.0.mlp.c_fc.weight, fp8_columnwise_scale_inv"), "e8m0 (256, 16)");
  EXPECT_EQ(gpt2.at("transformer.wte.weight, master"), "fp32 (256, 256)") << "tied: once";
  EXPECT_EQ(gpt2.count("lm_head.weight, master"), 0U);
  EXPECT_EQ(gpt2.size(), 16U * 3 + 4U * 4);
}

#if !defined(SHARD8_CUDA)

/// Writes bytes to an element that show which element of which tensor (`key`) it is.
void write_pattern(const StateTensor& t, std::uint64_t key, std::byte* element, std::int64_t row, std::int64_t col) {
  const std::int64_t cols = t.shape.count() / t.shape[0];
  const std::uint64_t bits = checkpoint::hash_element(row * cols + col, key);
  std::memcpy(element, &bits, tensor::size_of(t.dtype));
}

/// Calls f(element, row, col) for every element of a tensor on this rank.
template <class F>
void for_each_element(const StateTensor& t, const F& f) {
  for (const auto& part : t.parts) {
    const io::StridedBox memory = part.memory();
    for (std::int64_t r = part.box.row0; r < part.box.row0 + part.box.rows; ++r)
      for (std::int64_t c = part.box.col0; c < part.box.col0 + part.box.cols; ++c)
        f(part.local.data + static_cast<std::size_t>(memory.at(r, c)) * tensor::size_of(t.dtype), r, c);
  }
}

/// Copies what two ranks have in common, as a restart on another mesh reads the boxes of the first mesh's ranks.
void copy(const StateTensor& from, const StateTensor& to) {
  const std::size_t size = tensor::size_of(to.dtype);
  for (const auto& source : from.parts) {
    for (const auto& target : to.parts) {
      const io::StridedBox in = io::intersect(source.memory(), target.box), out = target.memory();
      for (std::int64_t r = in.box.row0; r < in.box.row0 + in.box.rows; ++r)
        for (std::int64_t c = in.box.col0; c < in.box.col0 + in.box.cols; ++c)
          std::memcpy(target.local.data + static_cast<std::size_t>(out.at(r, c)) * size,
                      source.local.data + static_cast<std::size_t>(in.at(r, c)) * size, size);
    }
  }
}

/// Whether the tensor is one number. Several names may share it in memory, so all numbers get the same pattern.
bool shared(const StateTensor& t) { return t.sharded.empty() && t.shape.count() == 1; }

void expect_moves(const deck::Config& before, const deck::Config& after) {
  const auto from = ranks_of(before, true), to = ranks_of(after, true);
  for (const auto& rank : from)
    for (std::size_t i = 0; i < rank->tensors.size(); ++i)
      for_each_element(rank->tensors[i], [&](std::byte* element, std::int64_t row, std::int64_t col) {
        write_pattern(rank->tensors[i], shared(rank->tensors[i]) ? 0 : i, element, row, col);
      });
  std::vector<std::uint64_t> hashes(from.front()->tensors.size()), moved = hashes;
  for (const auto& rank : from)
    for (std::size_t i = 0; i < hashes.size(); ++i)
      if (rank->tensors[i].counts(rank->place)) hashes[i] += hash_parts(tests::exec(), rank->tensors[i]);
  for (const auto& rank : to) {
    for (std::size_t i = 0; i < hashes.size(); ++i) {
      const StateTensor& target = rank->tensors[i];
      for_each_element(target, [&](std::byte* element, std::int64_t, std::int64_t) {
        std::memset(element, 0x5a, tensor::size_of(target.dtype));
      });
      for (const auto& source : from)
        if (source->tensors[i].counts(source->place)) copy(source->tensors[i], target);
      std::int64_t wrong = 0;
      for_each_element(target, [&](const std::byte* element, std::int64_t row, std::int64_t col) {
        std::array<std::byte, 8> expected{};
        write_pattern(target, shared(target) ? 0 : i, expected.data(), row, col);
        wrong += std::memcmp(element, expected.data(), tensor::size_of(target.dtype)) == 0 ? 0 : 1;
      });
      EXPECT_EQ(wrong, 0) << target.label();
      if (target.counts(rank->place)) moved[i] += hash_parts(tests::exec(), target);
    }
  }
  for (std::size_t i = 0; i < hashes.size(); ++i)
    EXPECT_EQ(hashes[i], moved[i]) << from.front()->tensors[i].label() << ": a hash that depends on the mesh";
}

TEST(StateMoves, FromAnyMeshToAnyByTheBoxes) {
  const std::vector<std::pair<Mesh, Mesh>> pairs = {
      {{1, 2, 2}, {1, 3, 1}}, {{1, 3, 1}, {2, 1, 2}}, {{2, 2, 1}, {1, 1, 4}}, {{1, 1, 1}, {1, 5, 2}}};
  for (const auto& [before, after] : pairs) {
    for (const char* arch : {"llama", "gpt2"}) {
      test::Variant v;
      v.arch = arch;
      v.tied = before[0] == 2;
      v.mesh = before;
      SCOPED_TRACE(test::name_of(v));
      // The same number of key heads on every mesh.
      auto from = test::small_deck(v), to = from;
      from.model.kv_heads = to.model.kv_heads = 4;
      to.mesh.replicate = after[0];
      to.mesh.shard = after[1];
      to.mesh.tensor = after[2];
      expect_moves(from, to);
    }
  }
}

TEST(StateMoves, OfWeightsInFp8) {
  for (const char* recipe : {"delayed", "current", "block", "mxfp8"}) {
    for (const char* arch : {"llama", "gpt2"}) {
      test::Fp8Variant from, to;
      from.recipe = to.recipe = recipe;
      from.arch = to.arch = arch;
      from.mesh = {1, 2, 2};
      to.mesh = {1, 3, 1};
      SCOPED_TRACE(test::name_of(from));
      expect_moves(test::fp8_deck(from, 1, 1), test::fp8_deck(to, 1, 1));
    }
  }
}

TEST(StateMoves, NoTwoPartsOverlap) {
  for (const auto& [name, config] : decks()) {
    if (config.mesh.ranks() > 4) continue;
    SCOPED_TRACE(name);
    for (const auto& rank : ranks_of(config, true)) {
      std::vector<std::pair<const std::byte*, const std::byte*>> places;
      for (const StateTensor& t : rank->tensors)
        for (const auto& part : t.parts)
          if (!shared(t)) places.emplace_back(part.local.data, part.local.data + part.local.bytes());
      std::sort(places.begin(), places.end());
      for (std::size_t i = 1; i < places.size(); ++i) EXPECT_LE(places[i - 1].second, places[i].first);
    }
  }
}

#endif

TEST(StateHash, DependsOnPlaceAndBits) {
  EXPECT_NE(checkpoint::hash_element(0, 1), checkpoint::hash_element(1, 0));
  EXPECT_NE(checkpoint::hash_element(0, 0), checkpoint::hash_element(0, 1));
  // The values must not change: checkpoints contain hashes.
  EXPECT_EQ(checkpoint::hash_element(0, 0), 0xa706dd2f4d197e6fULL);
}

}  // namespace
}  // namespace shard8
