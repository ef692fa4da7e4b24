// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "model/huggingface_entries.hpp"

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
deck::ModelConfig qwen3() {
  deck::ModelConfig m = llama();
  m.head_dim = 32, m.qk_norm = true;
  return m;
}
deck::ModelConfig mixtral() {
  deck::ModelConfig m = llama();
  m.moe.experts = 4, m.moe.experts_per_token = 3, m.moe.ffn = 48;
  return m;
}
deck::ModelConfig qwen3_moe() {
  deck::ModelConfig m = mixtral();
  m.head_dim = 32, m.qk_norm = true;
  m.moe.dense_layers = 2;
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
  for (const auto& model : {llama(), mixtral(), qwen3(), qwen3_moe(), gpt2()}) {
    const std::string text = model::huggingface_config(model, tensor::DType::bf16);
    EXPECT_EQ(differences(text, model), Lines{}) << text;
    EXPECT_NE(text.find("\"torch_dtype\": \"bfloat16\""), std::string::npos) << text;
  }
  EXPECT_EQ(differences(model::huggingface_config(gpt2(), tensor::DType::fp32), llama()),
            Lines{"model_type = \"gpt2\", but model.arch = llama: set model.arch to gpt2"});
  EXPECT_EQ(differences(model::huggingface_config(qwen3(), tensor::DType::fp32), llama()),
            Lines{"model_type = \"qwen3\", but model.qk_norm = false: set model.qk_norm to true"});
  EXPECT_EQ(differences(model::huggingface_config(llama(), tensor::DType::fp32), qwen3()),
            Lines{"model_type = \"llama\", but model.qk_norm = true: set model.qk_norm to false"});
  EXPECT_EQ(differences(model::huggingface_config(qwen3(), tensor::DType::fp32), gpt2()),
            Lines{"model_type = \"qwen3\", but model.arch = gpt2: set model.arch to llama and model.qk_norm to true"});
}

// What Transformers reads: Qwen3Config has other keys and defaults than LlamaConfig.
TEST(HuggingfaceConfig, Qwen3HasKeysAndDefaultsOfItsOwn) {
  const std::string text = model::huggingface_config(qwen3(), tensor::DType::fp32);
  for (const char* entry : {R"("Qwen3ForCausalLM")", R"("model_type": "qwen3")", R"("head_dim": 32)",
                            R"("attention_bias": false)", R"("use_sliding_window": false)"})
    EXPECT_NE(text.find(entry), std::string::npos) << entry << " in " << text;
  EXPECT_EQ(text.find("mlp_bias"), std::string::npos) << text;
  const std::string common = R"({"model_type": "qwen3", "num_attention_heads": 4, "rope_theta": 5e5, )";
  const std::string kv = R"("num_key_value_heads": 2, )", width = R"("head_dim": 32, )";
  EXPECT_EQ(differences(common + kv + R"("hidden_size": 64})", qwen3()),
            Lines{"head_dim = 128 (Hugging Face's default), but model.head_dim = 32: set model.head_dim to 128"});
  EXPECT_EQ(differences(common + width + R"("hidden_size": 64})", qwen3()),
            Lines{"num_key_value_heads = 32 (Hugging Face's default), but model.kv_heads = 2: set model.kv_heads to "
                  "32"});
  // A null is the number of query heads.
  const std::string null_kv = R"("num_key_value_heads": null, )";
  EXPECT_EQ(
      differences(common + null_kv + width + R"("hidden_size": 64})", qwen3()),
      Lines{"num_attention_heads = 4 (also the num_key_value_heads), but model.kv_heads = 2: set model.kv_heads to "
            "4"});
  deck::ModelConfig equal = qwen3();
  equal.kv_heads = 4;
  EXPECT_EQ(differences(common + null_kv + width + R"("hidden_size": 64})", equal), Lines{});
  equal.heads = 32;
  EXPECT_EQ(
      differences(R"({"model_type": "qwen3", "rope_theta": 5e5, )" + null_kv + width + R"("hidden_size": 64})", equal),
      Lines{"num_attention_heads = 32 (Hugging Face's default, also the num_key_value_heads), but model.kv_heads = 4: "
            "set model.kv_heads to 32"});
  // A window counts only where it is used.
  for (const char* unused : {R"("sliding_window": 16)", R"("sliding_window": 16, "use_sliding_window": false)",
                             R"("use_sliding_window": true)", R"("sliding_window": null, "use_sliding_window": true)"})
    EXPECT_EQ(differences(common + kv + width + unused + "}", qwen3()), Lines{}) << unused;
  const std::string used = R"("use_sliding_window": true, "sliding_window": 16})";
  EXPECT_EQ(differences(common + kv + width + used, qwen3()),
            Lines{"sliding_window = 16, but shard8 attends to all tokens of model.seq = 32: set model.seq to 16 or "
                  "less"});
  deck::ModelConfig longer = qwen3();
  longer.seq = 8192;
  EXPECT_EQ(differences(common + kv + width + R"("use_sliding_window": true})", longer).size(), 1u) << "4096";
}

TEST(HuggingfaceConfig, ArchitecturesWithExpertsAreTold) {
  const auto of = [](const deck::ModelConfig& m) { return model::huggingface_config(m, tensor::DType::fp32); };
  EXPECT_EQ(differences(of(mixtral()), llama()),
            Lines{"model_type = \"mixtral\", but moe.experts = 0: set moe.experts to 4"});
  EXPECT_EQ(differences(of(llama()), mixtral()),
            Lines{"model_type = \"llama\", but moe.experts = 4: set moe.experts to 0"});
  EXPECT_EQ(differences(of(qwen3_moe()), llama()),
            (Lines{"model_type = \"qwen3_moe\", but model.qk_norm = false: set model.qk_norm to true",
                   "model_type = \"qwen3_moe\", but moe.experts = 0: set moe.experts to 4"}));
  EXPECT_EQ(differences(of(mixtral()), qwen3_moe()),
            Lines{"model_type = \"mixtral\", but model.qk_norm = true: set model.qk_norm to false"});
  EXPECT_EQ(
      differences(of(qwen3_moe()), gpt2()),
      Lines{"model_type = \"qwen3_moe\", but model.arch = gpt2: set model.arch to llama and model.qk_norm to true "
            "and moe.experts to 4"});
  // Without a number of experts Transformers takes its default.
  EXPECT_EQ(differences(R"({"model_type": "qwen3_moe"})", qwen3()),
            Lines{"model_type = \"qwen3_moe\", but moe.experts = 0: set moe.experts to 128"});
  EXPECT_EQ(differences(R"({"architectures": ["MixtralForCausalLM"]})", llama()),
            Lines{"architectures = [\"MixtralForCausalLM\"], but moe.experts = 0: set moe.experts to 8"});
  EXPECT_EQ(differences(R"({"architectures": ["Qwen3MoeForCausalLM"]})", qwen3()),
            Lines{"architectures = [\"Qwen3MoeForCausalLM\"], but moe.experts = 0: set moe.experts to 128"});
}

// MixtralConfig: intermediate_size is the experts' width, and there are no layers without experts.
TEST(HuggingfaceConfig, MixtralHasKeysAndDefaultsOfItsOwn) {
  const std::string text = model::huggingface_config(mixtral(), tensor::DType::fp32);
  for (const char* entry : {R"("MixtralForCausalLM")", R"("model_type": "mixtral")", R"("intermediate_size": 48)",
                            R"("num_local_experts": 4)", R"("num_experts_per_tok": 3)"})
    EXPECT_NE(text.find(entry), std::string::npos) << entry << " in " << text;
  for (const char* other : {"moe_intermediate_size", "norm_topk_prob", "mlp_only_layers", "mlp_bias", "attention_bias"})
    EXPECT_EQ(text.find(other), std::string::npos) << other << " in " << text;
  EXPECT_EQ(differences(R"({"model_type": "mixtral"})", mixtral()),
            (Lines{"intermediate_size = 14336 (Hugging Face's default), but moe.ffn = 48: set moe.ffn to 14336",
                   "num_local_experts = 8 (Hugging Face's default), but moe.experts = 4: set moe.experts to 8",
                   "num_experts_per_tok = 2 (Hugging Face's default), but moe.experts_per_token = 3: set "
                   "moe.experts_per_token to 2",
                   "num_attention_heads = 32 (Hugging Face's default), but model.heads = 4: set model.heads to 32",
                   "num_key_value_heads = 8 (Hugging Face's default), but model.kv_heads = 2: set model.kv_heads to 8",
                   "rms_norm_eps = 1e-05 (Hugging Face's default), but model.norm_eps = 1e-06: set model.norm_eps to "
                   "1e-05",
                   "rope_theta = 1000000.0 (Hugging Face's default), but model.rope_theta = 500000.0: set "
                   "model.rope_theta to 1000000.0"}));
  const std::string common = R"({"model_type": "mixtral", "intermediate_size": 48, "num_experts_per_tok": 3,
    "num_attention_heads": 4, "rms_norm_eps": 1e-6, "rope_theta": 5e5, )";
  EXPECT_EQ(
      differences(common + R"("num_key_value_heads": 2, "num_experts": 4, "router_aux_loss_coef": 9})", mixtral()),
      Lines{});
  EXPECT_EQ(
      differences(common + R"("num_key_value_heads": null, "num_experts": 4})", mixtral()),
      Lines{"num_attention_heads = 4 (also the num_key_value_heads), but model.kv_heads = 2: set model.kv_heads to "
            "4"});
  EXPECT_EQ(differences(common + R"("num_key_value_heads": 2, "num_experts": 4, "sliding_window": 16,
    "use_sliding_window": false})",
                        mixtral()),
            Lines{"sliding_window = 16, but shard8 attends to all tokens of model.seq = 32: set model.seq to 16 or "
                  "less"});
  EXPECT_EQ(differences(common + R"("num_key_value_heads": 2, "num_experts": 4, "num_local_experts": 8})", mixtral()),
            (Lines{"num_local_experts = 8 and num_experts = 4 contradict each other: take the wrong one out",
                   "num_local_experts = 8, but moe.experts = 4: set moe.experts to 8"}));
  deck::ModelConfig dense = mixtral();
  dense.moe.dense_layers = 1;
  EXPECT_EQ(differences(text, dense),
            Lines{"all layers of a mixtral have experts, but moe.dense_layers = 1: set moe.dense_layers to 0"});
  test::expect_error([&] { model::huggingface_config(dense, tensor::DType::fp32); }, base::ExitCode::deck,
                     {"moe.dense_layers = 1", "Mixtral has experts in all layers"});
}

TEST(HuggingfaceConfig, Qwen3MoeHasKeysAndDefaultsOfItsOwn) {
  const std::string text = model::huggingface_config(qwen3_moe(), tensor::DType::fp32);
  for (const char* entry : {R"("Qwen3MoeForCausalLM")", R"("model_type": "qwen3_moe")", R"("intermediate_size": 96)",
                            R"("head_dim": 32)", R"("moe_intermediate_size": 48)", R"("num_experts": 4)",
                            R"("num_experts_per_tok": 3)", R"("norm_topk_prob": true)", R"("decoder_sparse_step": 1)",
                            R"("attention_bias": false)", R"("use_sliding_window": false)"})
    EXPECT_NE(text.find(entry), std::string::npos) << entry << " in " << text;
  deck::ModelConfig narrow = qwen3_moe();  // heads of hidden / heads channels, as Qwen3MoeConfig has by default
  narrow.head_dim = 16;
  narrow.moe.dense_layers = 0;
  EXPECT_EQ(differences(R"({"model_type": "qwen3_moe", "norm_topk_prob": true})", narrow),
            (Lines{"moe_intermediate_size = 768 (Hugging Face's default), but moe.ffn = 48: set moe.ffn to 768",
                   "num_experts = 128 (Hugging Face's default), but moe.experts = 4: set moe.experts to 128",
                   "num_experts_per_tok = 8 (Hugging Face's default), but moe.experts_per_token = 3: set "
                   "moe.experts_per_token to 8",
                   "num_attention_heads = 32 (Hugging Face's default), but model.heads = 4: set model.heads to 32",
                   "num_key_value_heads = 4 (Hugging Face's default), but model.kv_heads = 2: set model.kv_heads to 4",
                   "rope_theta = 10000.0 (Hugging Face's default), but model.rope_theta = 500000.0: set "
                   "model.rope_theta to 10000.0"}));
  const std::string common = R"({"model_type": "qwen3_moe", "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 32, "rope_theta": 5e5, "num_experts_per_tok": 3, "moe_intermediate_size": 48, "num_local_experts": 4)";
  const std::string normalised = common + R"(, "norm_topk_prob": true, )";
  const std::string first_two = R"("mlp_only_layers": [1, 0])";
  EXPECT_EQ(differences(normalised + R"("intermediate_size": 96, )" + first_two + "}", qwen3_moe()), Lines{});
  EXPECT_EQ(differences(normalised + R"("intermediate_size": 97, )" + first_two + "}", qwen3_moe()),
            Lines{"intermediate_size = 97, but model.ffn = 96: set model.ffn to 97"});
  // The width of feed-forward blocks is that of no layer.
  narrow.head_dim = 32;
  EXPECT_EQ(differences(normalised + R"("intermediate_size": 97})", narrow), Lines{});
  const std::string not_normalised =
      ", but shard8 divides the weights of a token's experts by their sum: use weights of such a model";
  EXPECT_EQ(differences(common + "}", narrow),
            Lines{"norm_topk_prob = false (Hugging Face's default)" + not_normalised});
  EXPECT_EQ(differences(common + R"(, "norm_topk_prob": false})", narrow),
            Lines{"norm_topk_prob = false" + not_normalised});
}

// Qwen3MoeDecoderLayer: layer i, from 0, has experts if it is not in mlp_only_layers and the step divides i + 1.
TEST(HuggingfaceConfig, LayersWithoutExpertsAreCompared) {
  const std::string common = R"({"model_type": "qwen3_moe", "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 32, "rope_theta": 5e5, "num_experts_per_tok": 3, "moe_intermediate_size": 48, "num_local_experts": 4,
    "intermediate_size": 96, "norm_topk_prob": true)";
  const auto with = [&](const std::string& text, std::int64_t dense_layers) {
    deck::ModelConfig m = qwen3_moe();
    m.moe.dense_layers = dense_layers;
    return differences(common + text + "}", m);
  };
  EXPECT_EQ(with("", 0), Lines{});
  EXPECT_EQ(with(R"(, "mlp_only_layers": null, "decoder_sparse_step": 1)", 0), Lines{});
  EXPECT_EQ(with(R"(, "mlp_only_layers": [0])", 1), Lines{});
  EXPECT_EQ(with(R"(, "decoder_sparse_step": 3)", 2), Lines{});  // of three layers the last one
  EXPECT_EQ(with(R"(, "decoder_sparse_step": 2, "mlp_only_layers": [2])", 0),
            Lines{"mlp_only_layers = [2] and decoder_sparse_step = 2, but in shard8 layers without experts come first: "
                  "use weights of such a model"});
  EXPECT_EQ(with("", 1),
            Lines{"mlp_only_layers = [] and decoder_sparse_step = 1, but moe.dense_layers = 1: set moe.dense_layers to "
                  "0"});
  EXPECT_EQ(with(R"(, "mlp_only_layers": [0, 1])", 0),
            Lines{"mlp_only_layers = [0,1] and decoder_sparse_step = 1, but moe.dense_layers = 0: set moe.dense_layers "
                  "to 2"});
  EXPECT_EQ(with(R"(, "mlp_only_layers": [0, 1, 2])", 1),
            Lines{"mlp_only_layers = [0,1,2] and decoder_sparse_step = 1, so no layer has experts: set moe.experts to "
                  "0, and model.ffn to the layers' width"});
  for (const char* wrong :
       {R"(, "decoder_sparse_step": 0)", R"(, "mlp_only_layers": 1)", R"(, "mlp_only_layers": ["0"])"})
    EXPECT_NE(with(wrong, 0)[0].find("not a list of integers and a positive integer"), std::string::npos) << wrong;
}

TEST(HuggingfaceConfig, WidthsOfHeadsAreCompared) {
  deck::ModelConfig wide = llama();
  wide.head_dim = 24;
  const std::string heads = R"({"num_attention_heads": 4, "num_key_value_heads": 2, "rope_theta": 5e5, )";
  EXPECT_EQ(differences(heads + R"("hidden_size": 64, "head_dim": 24})", wide), Lines{});
  EXPECT_EQ(differences(heads + R"("hidden_size": 64})", wide),
            Lines{"hidden_size / num_attention_heads = 16, but model.head_dim = 24: set model.head_dim to 16"});
  EXPECT_EQ(model::model_differences(wide, llama()),
            Lines{"model.head_dim = 24 in the checkpoint, and 16 in the deck: set model.head_dim to 24"});
  EXPECT_EQ(model::model_differences(qwen3(), llama()),
            (Lines{"model.qk_norm = true in the checkpoint, and false in the deck: set model.qk_norm to true",
                   "model.head_dim = 32 in the checkpoint, and 16 in the deck: set model.head_dim to 32"}));
}

TEST(HuggingfaceConfig, EachDifferenceIsALine) {
  const std::string text = R"({"model_type": "llama", "hidden_size": 128, "intermediate_size": 96,
    "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 250.5, "max_position_embeddings": 16,
    "rms_norm_eps": 1e-06, "rope_theta": 500000, "tie_word_embeddings": "no", "hidden_act": "gelu",
    "rope_scaling": {"rope_type": "llama3", "factor": 8.0}, "attention_bias": true, "head_dim": null})";
  EXPECT_EQ(
      differences(text, llama()),
      (Lines{"hidden_size = 128, but model.hidden = 64: set model.hidden to 128",
             "num_hidden_layers = 2, but model.layers = 3: set model.layers to 2",
             "num_attention_heads = 4 (also the num_key_value_heads), but model.kv_heads = 2: set model.kv_heads "
             "to 4",
             "vocab_size = 250.5, which is no positive integer: correct it in config.json, or copy the file again",
             "max_position_embeddings = 16, but model.seq = 32: set model.seq to 16 or less",
             "tie_word_embeddings = \"no\", which is neither true nor false: correct it in config.json, or copy the "
             "file again",
             "hidden_act = \"gelu\", but shard8 computes a llama with \"silu\": use weights of such a model",
             "attention_bias = true, but shard8 computes a llama with false: use weights of such a model",
             "rope_scaling has rope_type = \"llama3\", but shard8 has the plain rotary embedding alone: use "
             "weights of such a model"}));
  EXPECT_EQ(
      differences(R"({"model_type": "mistral"})", llama()),
      Lines{"model_type = \"mistral\", but shard8 has llama, mixtral, qwen3, qwen3_moe and gpt2: use weights of such a "
            "model"});
}

TEST(HuggingfaceConfig, MissingKeysAreHuggingFacesDefaults) {
  EXPECT_EQ(differences("{}", llama()),
            (Lines{"num_attention_heads = 32 (Hugging Face's default), but model.heads = 4: set model.heads to 32",
                   "rope_theta = 10000.0 (Hugging Face's default), but model.rope_theta = 500000.0: set "
                   "model.rope_theta to 10000.0"}));
  EXPECT_EQ(differences(R"({"num_attention_heads": 4, "num_key_value_heads": 2,
                            "rope_parameters": {"rope_theta": 500000.0, "rope_type": "default"}})",
                        llama()),
            Lines{});
  EXPECT_EQ(differences(R"({"n_embd": 64, "n_inner": null, "n_head": 4})", gpt2()), Lines{});
  EXPECT_EQ(differences(R"({"n_embd": 32, "n_head": 4})", gpt2()).size(), 2u);
  EXPECT_EQ(differences("{}", gpt2()),
            Lines{"n_head = 12 (Hugging Face's default), but model.heads = 4: set model.heads to 12"});
}

// The attribute_map of GPT2Config, and the places of rope_theta.
TEST(HuggingfaceConfig, EveryNameOfAKeyIsRead) {
  const std::string alias = R"("hidden_size": 64, "num_hidden_layers": 3, "max_position_embeddings": 32)";
  EXPECT_EQ(differences("{" + alias + R"(, "num_attention_heads": 8})", gpt2()),
            Lines{"num_attention_heads = 8, but model.heads = 4: set model.heads to 8"});
  EXPECT_EQ(differences("{" + alias + R"(, "num_attention_heads": 4, "n_head": 4})", gpt2()), Lines{});
  EXPECT_EQ(differences("{" + alias + R"(, "num_attention_heads": 8, "n_head": 4})", gpt2()),
            Lines{"n_head = 4 and num_attention_heads = 8 contradict each other: take the wrong one out"});
  EXPECT_EQ(differences(R"({"hidden_size": 32, "num_attention_heads": 4})", gpt2()),
            (Lines{"hidden_size = 32, but model.hidden = 64: set model.hidden to 32",
                   "4 * hidden_size = 128, but model.ffn = 256: set model.ffn to 128"}));
  EXPECT_EQ(differences(R"({"n_embd": 64, "hidden_size": 32, "n_head": 4})", gpt2()),
            Lines{"n_embd = 64 and hidden_size = 32 contradict each other: take the wrong one out"})
      << "n_inner is that of the first name";
  const std::string heads = R"({"num_attention_heads": 4, "num_key_value_heads": 2, )";
  EXPECT_EQ(differences(heads + R"("rope_scaling": {"rope_theta": 1e4, "type": "default"}})", llama()),
            Lines{"rope_scaling.rope_theta = 10000.0, but model.rope_theta = 500000.0: set model.rope_theta to "
                  "10000.0"});
  EXPECT_EQ(differences(heads + R"("rope_theta": 5e5, "rope_parameters": {"rope_theta": 1e4}})", llama()),
            Lines{"rope_theta = 500000.0 and rope_parameters.rope_theta = 10000.0 contradict each other: take the "
                  "wrong one out"});
}

// A deck cannot have these values, so it is the file that must change.
TEST(HuggingfaceConfig, ValuesOfOtherTypesAreTold) {
  const std::string rest = R"(, "num_key_value_heads": 2, "rope_theta": 5e5})";
  const std::string end = ": correct it in config.json, or copy the file again";
  const auto with = [&](const std::string& text, const deck::ModelConfig& model = llama()) {
    return differences(R"({"num_attention_heads": 4, )" + text + rest, model);
  };
  for (const char* value : {R"("64")", "true", "-64", "0", "64.5", "1e300", "[64]", R"({"a": 1})"})
    EXPECT_NE(with(std::string(R"("hidden_size": )") + value).at(0).find(", which is no positive integer" + end),
              std::string::npos)
        << value;
  EXPECT_EQ(with(R"("hidden_size": "64")"), Lines{R"(hidden_size = "64", which is no positive integer)" + end});
  EXPECT_EQ(with(R"("hidden_size": 64.0)"), Lines{});
  EXPECT_EQ(with(R"("hidden_size": 32.0)"), Lines{"hidden_size = 32.0, but model.hidden = 64: set model.hidden to 32"});
  for (const char* value : {R"("1e-06")", "true", "-1e-06", "0"})
    EXPECT_EQ(with(std::string(R"("rms_norm_eps": )") + value),
              Lines{std::string("rms_norm_eps = ") + value + ", which is no positive number" + end});
  EXPECT_EQ(with(R"("attention_bias": "false")"),
            Lines{R"(attention_bias = "false", which is neither true nor false)" + end});
  EXPECT_EQ(with(R"("hidden_act": 1)"), Lines{"hidden_act = 1, which is no text" + end});
  EXPECT_EQ(with(R"("sliding_window": "16")"), Lines{R"(sliding_window = "16", which is no positive integer)" + end});
  EXPECT_EQ(with(R"("layer_types": "full_attention")"),
            Lines{R"(layer_types = "full_attention", which is no list)" + end});
  EXPECT_EQ(with(R"("model_type": "mixtral", "num_local_experts": "4")"),
            Lines{R"(model_type = "mixtral", but moe.experts = 0: set moe.experts to their number, and correct )"
                  R"(num_local_experts = "4" in config.json)"});
  EXPECT_EQ(differences(R"({"n_embd": 9223372036854775807, "n_head": 4})", gpt2()).size(), 1u);
}

// The file of weights decides which of two is right; here it is not seen.
TEST(HuggingfaceConfig, ATiedHeadCanBeSetInEither) {
  deck::ModelConfig untied = gpt2();
  untied.tie_embeddings = false;
  EXPECT_EQ(differences(R"({"n_head": 4})", untied),
            Lines{"tie_word_embeddings = true (Hugging Face's default), but model.tie_embeddings = false: set "
                  "model.tie_embeddings to true, or, if the weights have a head of their own, tie_word_embeddings in "
                  "config.json to false"});
  EXPECT_EQ(
      differences(R"({"n_head": 4, "tie_word_embeddings": false})", gpt2()),
      Lines{"tie_word_embeddings = false, but model.tie_embeddings = true: set model.tie_embeddings to false, or, "
            "if the weights have no head of their own, tie_word_embeddings in config.json to true"});
}

// Without a type Transformers takes none or the older default; factors show that another was meant.
TEST(HuggingfaceConfig, ScalingsWithoutATypeAreRefused) {
  const std::string common = R"({"num_attention_heads": 4, "num_key_value_heads": 2, )";
  const std::string end =
      " and no rope_type, but shard8 has the plain rotary embedding alone: use weights of such a model";
  const auto with = [&](const std::string& key, const std::string& value) {
    const std::string theta = key == "rope_parameters" ? "" : R"(, "rope_theta": 5e5)";
    return differences(common + "\"" + key + "\": " + value + theta + "}", llama());
  };
  EXPECT_EQ(with("rope_scaling", R"({"factor": 8.0})"), Lines{"rope_scaling has factor = 8.0" + end});
  EXPECT_EQ(with("rope_scaling", R"({"rope_type": null, "type": null, "factor": 2.0})"),
            Lines{"rope_scaling has factor = 2.0" + end});
  EXPECT_EQ(with("rope_scaling", R"({"factor": 1.0, "short_factor": [1, 2]})"),
            Lines{"rope_scaling has short_factor = [1,2]" + end});
  EXPECT_EQ(with("rope_parameters", R"({"factor": 8.0, "rope_theta": 5e5, "low_freq_factor": 1.0})"),
            Lines{"rope_parameters has factor = 8.0" + end});
  EXPECT_EQ(with("rope_parameters", R"({"rope_theta": 5e5, "partial_rotary_factor": 1.0})"), Lines{});
  for (const char* plain : {"{}", "null", R"({"factor": 1.0})", R"({"factor": null})", R"({"rope_type": null})",
                            R"({"rope_type": "default", "factor": 8.0})"})
    EXPECT_EQ(with("rope_scaling", plain), Lines{}) << plain;
}

// Keys whose values neither shapes nor keys of the deck show.
TEST(HuggingfaceConfig, OtherComputationsAreRefused) {
  const std::string common = R"({"num_attention_heads": 4, "num_key_value_heads": 2, "rope_theta": 5e5, )";
  struct Case {
    std::string text;
    std::string part;
  };
  const std::vector<Case> table = {
      {R"("partial_rotary_factor": 0.5)", "partial_rotary_factor = 0.5, but shard8 computes a llama with 1.0"},
      {R"("rope_parameters": {"partial_rotary_factor": 0.5})", "rope_parameters.partial_rotary_factor = 0.5"},
      {R"("rope_parameters": {"full_attention": {"rope_type": "default"}})", "rope_parameters has full_attention = {"},
      {R"("rope_scaling": {"type": "linear", "factor": 2})", "rope_scaling has type = \"linear\""},
      {R"("rope_scaling": 2)", "rope_scaling = 2, but shard8 has the plain"},
      {R"("mlp_bias": true)", "mlp_bias = true, but shard8 computes a llama with false"},
      {R"("is_causal": false)", "is_causal = false"},
      {R"("head_dim": 32)", "head_dim = 32, but model.head_dim = 16: set model.head_dim to 32"},
      {R"("sliding_window": 16)", "sliding_window = 16, but shard8 attends to all tokens of model.seq = 32"},
      {R"("layer_types": ["full_attention", "sliding_attention"])", "layer_types has \"sliding_attention\""},
      {R"("per_layer_config": {"0": {"num_key_value_heads": 1}})", "per_layer_config is there"},
      {R"("quantization_config": {"quant_method": "fp8"})",
       "quantization_config has quant_method = \"fp8\", but shard8 reads no quantized weights: give a copy in bf16"},
      {R"("quantization_config": {})", "quantization_config is there"},
      {R"("architectures": ["MistralForCausalLM"])", "architectures = [\"MistralForCausalLM\"], but shard8 has llama"},
      {R"("architectures": ["Qwen3ForCausalLM"])", "but model.qk_norm = false: set model.qk_norm to true"},
      {R"("architectures": ["GPT2LMHeadModel"])", "but model.arch = llama: set model.arch to gpt2"}};
  for (const auto& [text, part] : table) {
    const Lines lines = differences(common + text + "}", llama());
    ASSERT_EQ(lines.size(), 1u) << text;
    EXPECT_NE(lines[0].find(part), std::string::npos) << lines[0];
  }
  for (const char* text :
       {R"("sliding_window": 32)", R"("sliding_window": 16, "use_sliding_window": false)", R"("sliding_window": null)",
        R"("layer_types": ["full_attention"])", R"("quantization_config": null)", R"("partial_rotary_factor": 1)",
        R"("hidden_act": "swish")", R"("architectures": ["LlamaForCausalLM"])", R"("head_dim": 16)"})
    EXPECT_EQ(differences(common + text + "}", llama()), Lines{}) << text;
  for (const char* text : {R"("scale_attn_weights": false)", R"("scale_attn_by_inverse_layer_idx": true)",
                           R"("add_cross_attention": true)", R"("activation_function": "relu")"})
    EXPECT_EQ(differences(std::string(R"({"n_head": 4, )") + text + "}", gpt2()).size(), 1u) << text;
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
  EXPECT_EQ(model::model_differences(mixtral(), llama()),
            Lines{"moe.experts = 4 in the checkpoint, and 0 in the deck: set moe.experts to 4"});
  deck::ModelConfig fewer = qwen3_moe();
  fewer.moe = {.experts = 8, .experts_per_token = 3, .ffn = 40, .dense_layers = 1};
  fewer.ffn = 64;
  EXPECT_EQ(model::model_differences(qwen3_moe(), fewer),
            (Lines{"moe.dense_layers = 2 in the checkpoint, and 1 in the deck: set moe.dense_layers to 2",
                   "model.ffn = 96 in the checkpoint, and 64 in the deck: set model.ffn to 96",
                   "moe.ffn = 48 in the checkpoint, and 40 in the deck: set moe.ffn to 48",
                   "moe.experts = 4 in the checkpoint, and 8 in the deck: set moe.experts to 4"}));
  fewer = mixtral();
  fewer.ffn = 64;  // of no layer
  EXPECT_EQ(model::model_differences(mixtral(), fewer), Lines{});
}

}  // namespace
}  // namespace shard8
