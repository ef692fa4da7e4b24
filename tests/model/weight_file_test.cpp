// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "model/weight_file.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "io/io_thread.hpp"
#include "tests/io/files.hpp"
#include "tests/io/safetensors_bytes.hpp"

namespace shard8 {
namespace {

using Shape = std::vector<std::int64_t>;
using Names = std::vector<std::string>;

const std::string kCases = SHARD8_SOURCE_DIR "/tests/cases/";

deck::ModelConfig small(deck::Arch arch, bool tied) {
  deck::ModelConfig m;
  m.arch = arch;
  m.hidden = 8, m.ffn = arch == deck::Arch::llama ? 12 : 32, m.layers = 2, m.heads = 4, m.vocab = 10, m.seq = 6;
  m.kv_heads = arch == deck::Arch::llama ? 2 : 4;
  m.tie_embeddings = tied;
  return m;
}
deck::ModelConfig llama(bool tied = false) { return small(deck::Arch::llama, tied); }
deck::ModelConfig gpt2(bool tied = true) { return small(deck::Arch::gpt2, tied); }

/// A file of weights in the making: the model's tensors, to which tests add and from which they take.
class Weights {
 public:
  explicit Weights(const deck::ModelConfig& model) {
    for (const model::UnitSpec& unit : model::make_units(model))
      for (const model::ParameterSpec& parameter : unit.parameters)
        for (const model::SourceBox& source : parameter.sources)
          shapes_[source.name] =
              parameter.vector ? Shape{source.stored_rows()} : Shape{source.stored_rows(), source.stored_cols()};
  }

  Weights& with(const std::string& name, const Shape& shape = {3}, const std::string& dtype = "F32") {
    shapes_[name] = shape;
    if (dtype != "F32") dtypes_[name] = dtype;
    return *this;
  }
  Weights& without(const std::string& name) {
    EXPECT_EQ(shapes_.erase(name), 1u) << name;
    return *this;
  }
  /// Gives all tensors other names.
  Weights& renamed(const std::function<std::string(const std::string&)>& name) {
    std::map<std::string, Shape> shapes;
    for (const auto& [old, shape] : shapes_) shapes[name(old)] = shape;
    shapes_ = shapes;
    return *this;
  }
  /// One more value that differs: element `index` of a tensor. All others are zero.
  Weights& set(const std::string& name, std::size_t index, float value) {
    values_[name][index] = value;
    return *this;
  }

  /// The names that check_tensors() returns.
  Names check(const deck::ModelConfig& model) const {
    const test::TempFolder folder;
    std::string header, data;
    for (const auto& [name, shape] : shapes_) {
      std::size_t elements = 1;
      std::string extents;
      for (const std::int64_t n : shape) {
        elements *= static_cast<std::size_t>(n);
        extents += (extents.empty() ? "" : ",") + std::to_string(n);
      }
      const bool fp32 = !dtypes_.contains(name);
      std::vector<float> values(elements, 0.0f);
      if (const auto set = values_.find(name); set != values_.end())
        for (const auto& [index, value] : set->second) values.at(index) = value;
      const std::string bytes = fp32 ? test::bytes_of(values) : std::string(elements, '\0');
      header += (header.empty() ? "{" : ",") +
                test::entry(name, fp32 ? "F32" : dtypes_.at(name), extents, data.size(), data.size() + bytes.size());
      data += bytes;
    }
    test::write_bytes(folder / "w.safetensors", test::safetensors(header + "}", data));
    io::IoThread io;
    return model::check_tensors(*io::open_tensor_file(io, folder / "w.safetensors"), model);
  }

  void expect_refused(const deck::ModelConfig& model, const Names& parts) const {
    test::expect_error([&] { check(model); }, base::ExitCode::deck, parts);
  }

 private:
  std::map<std::string, Shape> shapes_;
  std::map<std::string, std::string> dtypes_;
  std::map<std::string, std::map<std::size_t, float>> values_;
};

TEST(WeightFile, TheModelAloneFits) {
  for (const auto& model : {llama(), llama(true), gpt2(), gpt2(false)}) EXPECT_EQ(Weights(model).check(model), Names{});
  const auto bare = [](const std::string& name) { return name.starts_with("transformer.") ? name.substr(12) : name; };
  EXPECT_EQ(Weights(gpt2()).renamed(bare).check(gpt2()), Names{});
  io::IoThread io;
  deck::ModelConfig golden = llama();
  golden.hidden = 64, golden.ffn = 192, golden.vocab = 256, golden.seq = 32;
  const std::string gold = SHARD8_SOURCE_DIR "/tests/gold/";
  EXPECT_EQ(model::check_tensors(*io::open_tensor_file(io, gold + "llama_tiny.h5:/init"), golden), Names{});
}

// What Transformers computes itself is no weight, whatever its dtype.
TEST(WeightFile, MasksAndFrequenciesPass) {
  for (const std::string before : {"transformer.h.", "h."})
    EXPECT_EQ(Weights(gpt2())
                  .with(before + "0.attn.bias", {1, 1, 6, 6}, "BOOL")
                  .with(before + "1.attn.masked_bias", {})
                  .check(gpt2()),
              Names{});
  EXPECT_EQ(Weights(llama())
                .with("model.layers.1.self_attn.rotary_emb.inv_freq", {1})
                .with("model.rotary_emb.inv_freq", {1})
                .check(llama()),
            Names{});
}

TEST(WeightFile, TensorsThatWouldBeDroppedAreNamed) {
  for (const std::string name :
       {"model.layers.0.self_attn.q_proj.bias", "model.layers.1.self_attn.q_norm.weight",
        "model.layers.0.mlp.experts.0.w1.weight", "model.layers.0.mlp.gate.weight",
        "model.layers.1.pre_feedforward_layernorm.weight", "model.norm.bias", "model.embed_positions.weight",
        "lm_head.bias", "model.layers.0.self_attn.rotary_emb.scale", "model.layers.x.weight"})
    Weights(llama()).with(name).expect_refused(
        llama(), {"w.safetensors: has 1 tensor that a llama does not have and that would be dropped: '" + name + "'"});
  for (const std::string name :
       {"transformer.h.0.crossattention.c_attn.weight", "h.1.attn.q_attn.weight", "transformer.wtt.weight",
        "lm_head.bias", "wte.weight", "transformer.h.0.ln_3.weight", "transformer.h.0.attn.bias.weight"})
    Weights(gpt2()).with(name).expect_refused(gpt2(),
                                              {"that a gpt2 does not have and that would be dropped: '" + name + "'"});
  Weights many(llama());
  for (const char* linear : {"q_proj", "k_proj", "v_proj"})
    for (int layer = 0; layer < 2; ++layer) many.with(fmt::format("model.layers.{}.self_attn.{}.bias", layer, linear));
  many.expect_refused(
      llama(), {"has 6 tensors that a llama does not have", "'model.layers.0.self_attn.k_proj.bias', ", " and 2 more"});
}

TEST(WeightFile, OthersAreReturned) {
  EXPECT_EQ(Weights(llama()).with("optimizer.step", {1}, "I8").with("score.weight").check(llama()),
            (Names{"optimizer.step", "score.weight"}));
}

TEST(WeightFile, DtypesAndShapesAreCompared) {
  Weights(llama())
      .with("model.norm.weight", {8}, "F8_E4M3")
      .expect_refused(llama(), {"tensor 'model.norm.weight' has dtype F8_E4M3", "BF16"});
  Weights(llama()).with("model.norm.weight", {9}).expect_refused(llama(), {"has shape (9), the model needs (8)"});
  deck::ModelConfig shallow = llama();
  shallow.layers = 1;
  Weights(llama()).expect_refused(shallow, {"has 2 layers, but model.layers = 1: set model.layers to 2"});
}

TEST(WeightFile, ATiedHeadMustBeTheTable) {
  for (const auto& model : {llama(true), gpt2()}) {
    const bool is_llama = model.arch == deck::Arch::llama;
    const std::string table = is_llama ? "model.embed_tokens.weight" : "transformer.wte.weight";
    Weights weights(model);
    weights.with("lm_head.weight", {10, 8}).set(table, 79, 0.5f);
    weights.expect_refused(model, {"'lm_head.weight' is not a copy of '" + table + "' (0 and 0.5 in row 9, column 7)",
                                   "but model.tie_embeddings = true: set model.tie_embeddings to false, and so "
                                   "tie_word_embeddings in a config.json beside the file"});
    EXPECT_EQ(weights.set("lm_head.weight", 79, 0.5f).check(model), Names{});
    weights.with("lm_head.weight", {11, 8}).expect_refused(model, {"'lm_head.weight' has shape (11, 8)"});
  }
  // Larger than what is compared at once.
  deck::ModelConfig wide = llama(true);
  wide.vocab = 300'000;
  const std::size_t last = 300'000 * 8 - 1;
  Weights weights(wide);
  weights.with("lm_head.weight", {300'000, 8}).set("lm_head.weight", last, 1);
  weights.expect_refused(wide, {"(1 and 0 in row 299999, column 7)"});
  EXPECT_EQ(weights.set("model.embed_tokens.weight", last, 1).check(wide), Names{});
}

deck::ModelConfig with_experts(bool norms) {
  deck::ModelConfig m = llama();
  m.qk_norm = norms;
  m.moe.experts = 3, m.moe.experts_per_token = 1, m.moe.ffn = 5;
  return m;
}

// The tensors of experts show other keys than those of the group model.
TEST(WeightFile, KeysOfExpertsAreNamed) {
  for (const bool norms : {false, true}) {
    const deck::ModelConfig model = with_experts(norms);
    const Weights weights(model);
    EXPECT_EQ(weights.check(model), Names{});
    const auto expect = [&](const char* remedy, const std::function<void(deck::ModelConfig&)>& change) {
      deck::ModelConfig other = model;
      change(other);
      weights.expect_refused(other, {remedy});
    };
    expect("gate.weight' has shape (3, 8), the model needs (2, 8): set moe.experts to 3",
           [](auto& m) { m.moe.experts = 2; });
    expect("has shape (5, 8), the model needs (7, 8): set moe.ffn to 5", [](auto& m) { m.moe.ffn = 7; });
    expect("which the model needs; the file has 3 experts from layer 0 on, and", [](auto& m) { m.moe.experts = 0; });
    expect("norms of queries and keys: set moe.experts to 3", [](auto& m) { m.moe.experts = 0; });
    expect("norms of queries and keys: set moe.dense_layers to 0", [](auto& m) { m.moe.dense_layers = 1; });
    expect(norms ? "and norms of queries and keys: set model.qk_norm to true"
                 : "and no norms of queries and keys: set model.qk_norm to false",
           [](auto& m) { m.qk_norm = !m.qk_norm; });
  }
  deck::ModelConfig dense = llama(), first_dense = with_experts(true);
  dense.qk_norm = true, first_dense.moe.dense_layers = 1;
  Weights(dense).expect_refused(
      with_experts(true), {"'model.layers.0.mlp.gate.weight'", "the file has no experts, ", ": set moe.experts to 0"});
  Weights(dense).expect_refused(llama(), {"'model.layers.0.self_attn.k_norm.weight'", ": set model.qk_norm to true"});
  Weights(llama()).expect_refused(dense, {"the file has no experts, and no norms", ": set model.qk_norm to false"});
  Weights(first_dense).expect_refused(with_experts(true), {"has 3 experts from layer 1 on", "moe.dense_layers to 1"});
  Weights(first_dense)
      .expect_refused(llama(), {"set model.qk_norm to true and moe.experts to 3 and moe.dense_layers to 1"});
  Weights norms(dense);
  for (const char* layer : {"0", "1"})
    for (const char* norm : {"q_norm", "k_norm"})
      norms.with(fmt::format("model.layers.{}.self_attn.{}.weight", layer, norm), {4});
  norms.expect_refused(dense, {"has shape (4), the model needs (2): set model.head_dim to 4"});
  // One expert of an incomplete file.
  Weights(with_experts(true))
      .without("model.layers.1.mlp.experts.1.up_proj.weight")
      .expect_refused(with_experts(true), {"check moe.experts, moe.dense_layers and model.qk_norm, or"});
}

TEST(WeightFile, WhatIsMissingSaysWhy) {
  Weights(llama(true))
      .expect_refused(llama(false), {"there is no tensor 'lm_head.weight'", "set model.tie_embeddings to true",
                                     "and so tie_word_embeddings in a config.json beside the file"});
  Weights(llama())
      .without("model.layers.1.mlp.up_proj.weight")
      .expect_refused(llama(), {"there is no tensor 'model.layers.1.mlp.up_proj.weight'", "check model.arch"});
  const auto behind = [](const char* prefix) { return [prefix](const std::string& name) { return prefix + name; }; };
  for (const char* prefix : {"base_model.model.", "module.", "_orig_mod."}) {
    for (const auto& model : {llama(), llama(true), gpt2(), gpt2(false)}) {
      Weights weights(model);
      weights.renamed(behind(prefix))
          .expect_refused(model, {fmt::format("tensors begin with '{}'", prefix), "without this prefix"});
    }
  }
  const auto bare = [](const std::string& name) { return name.starts_with("model.") ? name.substr(6) : name; };
  Weights(llama()).renamed(bare).expect_refused(
      llama(), {"there is no tensor 'model.embed_tokens.weight', but 'embed_tokens.weight'", "begin with 'model.'"});
}

}  // namespace
}  // namespace shard8
