// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "model/huggingface_config.hpp"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "tests/io/files.hpp"

namespace shard8 {
namespace {

using Lines = std::vector<std::string>;

deck::ModelConfig llama() {
  deck::ModelConfig m;
  m.hidden = 64, m.ffn = 96, m.layers = 3, m.heads = 4, m.kv_heads = 2, m.vocab = 250, m.seq = 32;
  m.norm_eps = 1e-6, m.rope_theta = 5e5;
  return m;
}
deck::ModelConfig gpt2() {
  deck::ModelConfig m = llama();
  m.arch = deck::Arch::gpt2;
  m.kv_heads = 4, m.ffn = 256, m.norm_eps = 1e-5;
  m.tie_embeddings = true;
  return m;
}

Lines differences(const std::string& text, const deck::ModelConfig& model) {
  return model::config_differences(text, "config.json", model);
}

TEST(HuggingfaceConfig, WhatIsWrittenFits) {
  for (const auto& model : {llama(), gpt2()}) {
    const std::string text = model::huggingface_config(model, tensor::DType::bf16);
    EXPECT_EQ(differences(text, model), Lines{}) << text;
    EXPECT_NE(text.find("\"torch_dtype\": \"bfloat16\""), std::string::npos) << text;
  }
  EXPECT_EQ(differences(model::huggingface_config(gpt2(), tensor::DType::fp32), llama()),
            Lines{"model_type = \"gpt2\", but model.arch = llama: set model.arch to gpt2"});
}

TEST(HuggingfaceConfig, EachDifferenceIsALine) {
  const std::string text = R"({"model_type": "llama", "hidden_size": 128, "intermediate_size": 96,
    "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 250.5, "max_position_embeddings": 16,
    "rms_norm_eps": 1e-06, "rope_theta": 500000, "tie_word_embeddings": "no", "hidden_act": "gelu",
    "rope_scaling": {"rope_type": "llama3", "factor": 8.0}, "attention_bias": true, "head_dim": null})";
  EXPECT_EQ(differences(text, llama()),
            (Lines{"hidden_size = 128, but model.hidden = 64: set model.hidden to 128",
                   "num_hidden_layers = 2, but model.layers = 3: set model.layers to 2",
                   "num_key_value_heads = 4, but model.kv_heads = 2: set model.kv_heads to 4",
                   "vocab_size = 250.5, but model.vocab = 250: set model.vocab to 250.5",
                   "max_position_embeddings = 16, but model.seq = 32: set model.seq to 16 or less",
                   "tie_word_embeddings = \"no\", but model.tie_embeddings = false: set model.tie_embeddings to \"no\"",
                   "hidden_act = \"gelu\", but shard8 computes a llama with \"silu\": use weights of such a model",
                   "attention_bias = true, but shard8 computes a llama with false: use weights of such a model",
                   "rope_scaling has rope_type = \"llama3\", but shard8 has the plain rotary embedding alone: use "
                   "weights of such a model"}));
  EXPECT_EQ(differences(R"({"model_type": "mistral"})", llama()),
            Lines{"model_type = \"mistral\", but shard8 has llama and gpt2: use weights of such a model"});
}

TEST(HuggingfaceConfig, MissingKeysAreHuggingFacesDefaults) {
  EXPECT_EQ(differences("{}", llama()),
            Lines{"rope_theta = 10000.0 (Hugging Face's default), but model.rope_theta = 500000.0: set "
                  "model.rope_theta to 10000.0"});
  EXPECT_EQ(differences(R"({"rope_parameters": {"rope_theta": 500000.0, "rope_type": "default"}})", llama()), Lines{});
  EXPECT_EQ(differences(R"({"n_embd": 64, "n_inner": null})", gpt2()), Lines{});
  EXPECT_EQ(differences(R"({"n_embd": 32})", gpt2()).size(), 2u);
}

TEST(HuggingfaceConfig, WhatIsNoConfigIsAnError) {
  for (const char* text : {"", "[1]", "{\"hidden_size\": 64", "3"})
    test::expect_error([&] { differences(text, llama()); }, base::ExitCode::deck,
                       {"'config.json'", "not a configuration of Hugging Face"});
}

TEST(HuggingfaceConfig, ModelsOfCheckpointsAreCompared) {
  deck::ModelConfig other = llama();
  other.seq = 8;
  other.init_std = 1;
  EXPECT_EQ(model::model_differences(other, llama()), Lines{});
  other.heads = 8;
  other.rope_theta = 1;
  EXPECT_EQ(model::model_differences(other, llama()),
            (Lines{"model.heads = 8 in the checkpoint, and 4 in the deck: set model.heads to 8",
                   "model.rope_theta = 1.0 in the checkpoint, and 500000.0 in the deck: set model.rope_theta to 1.0"}));
  deck::ModelConfig shorter = gpt2();
  shorter.seq = 8;
  EXPECT_EQ(model::model_differences(shorter, gpt2()),
            Lines{"model.seq = 8 in the checkpoint, and 32 in the deck: set model.seq to 8 or less"});
  EXPECT_EQ(model::model_differences(gpt2(), shorter), Lines{});
  EXPECT_EQ(model::model_differences(gpt2(), llama()).size(), 1u);
}

}  // namespace
}  // namespace shard8
