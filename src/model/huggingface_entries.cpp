// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "model/huggingface_entries.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/text.hpp"
#include "deck/choices.hpp"

namespace shard8::model {

const Architecture& architecture_of(const deck::ModelConfig& model) {
  return *std::ranges::find_if(kArchitectures, [&](const Architecture& a) {
    return a.arch == model.arch && a.qk_norm == is_qwen3(model) && a.experts == model.moe.on();
  });
}

namespace {

/// The entries of models with experts. The defaults are those of MixtralConfig and Qwen3MoeConfig.
std::vector<ConfigEntry> expert_entries(const deck::ModelConfig& m) {
  if (is_mixtral(m))
    return {{"intermediate_size", "moe.ffn", m.moe.ffn, 14336},
            {"num_local_experts", "moe.experts", m.moe.experts, 8},
            {"num_experts_per_tok", "moe.experts_per_token", m.moe.experts_per_token, 2}};
  return {{"intermediate_size", "model.ffn", m.ffn, 6144},
          {"moe_intermediate_size", "moe.ffn", m.moe.ffn, 768},
          {"num_experts", "moe.experts", m.moe.experts, 128},
          {"num_experts_per_tok", "moe.experts_per_token", m.moe.experts_per_token, 8}};
}

/// The number of key and value heads that Transformers takes where config.json lacks num_key_value_heads. Null if it
/// takes num_attention_heads then.
Json default_kv_heads(const deck::ModelConfig& m) {
  if (is_mixtral(m)) return 8;
  if (is_qwen3_moe(m)) return 4;
  return is_qwen3(m) ? Json(32) : Json();
}

std::int64_t default_positions(const deck::ModelConfig& m) {
  if (is_mixtral(m)) return 131072;
  return is_qwen3(m) ? 32768 : 2048;
}

}  // namespace

std::vector<ConfigEntry> config_entries(const deck::ModelConfig& m) {
  if (is_llama(m)) {
    std::vector<ConfigEntry> entries{
        {"hidden_size", "model.hidden", m.hidden},
        {"num_hidden_layers", "model.layers", m.layers},
        {"num_attention_heads", "model.heads", m.heads, 32},
        {"num_key_value_heads", "model.kv_heads", m.kv_heads, default_kv_heads(m)},
        {"head_dim", "model.head_dim", m.head_width(), has_default_width(m) ? Json(128) : Json()},
        {"vocab_size", "model.vocab", m.vocab},
        {"max_position_embeddings", "model.seq", m.seq, default_positions(m), true},
        {"rms_norm_eps", "model.norm_eps", m.norm_eps, is_mixtral(m) ? 1e-5 : 1e-6},
        {"rope_theta", "model.rope_theta", m.rope_theta, is_mixtral(m) ? 1e6 : 1e4},
        {"tie_word_embeddings", "model.tie_embeddings", m.tie_embeddings, false}};
    const auto widths =
        m.moe.on() ? expert_entries(m) : std::vector<ConfigEntry>{{"intermediate_size", "model.ffn", m.ffn}};
    entries.insert(entries.begin() + 1, widths.begin(), widths.end());
    return entries;
  }
  return {{"n_embd", "model.hidden", m.hidden},
          {"n_inner", "model.ffn", m.ffn},
          {"n_layer", "model.layers", m.layers},
          {"n_head", "model.heads", m.heads, 12},
          {"vocab_size", "model.vocab", m.vocab},
          {"n_positions", "model.seq", m.seq, 1024, true},
          {"layer_norm_epsilon", "model.norm_eps", m.norm_eps, 1e-5},
          {"tie_word_embeddings", "model.tie_embeddings", m.tie_embeddings, true}};
}

std::vector<FixedEntry> fixed_entries(const deck::ModelConfig& m) {
  if (is_mixtral(m)) return {{"hidden_act", "silu"}};
  if (is_qwen3(m)) return {{"hidden_act", "silu"}, {"attention_bias", false}};
  if (is_llama(m)) return {{"hidden_act", "silu"}, {"attention_bias", false}, {"mlp_bias", false}};
  return {{"activation_function", "gelu_new"},
          {"scale_attn_weights", true},
          {"scale_attn_by_inverse_layer_idx", false},
          {"add_cross_attention", false}};
}
std::string shown(const Json& value) {
  return base::quotable(value.dump(-1, ' ', false, Json::error_handler_t::replace));
}

bool fits(const Json& theirs, const Json& ours, bool at_least) {
  if (theirs.is_number() != ours.is_number() || !theirs.is_number()) return theirs == ours;
  if (at_least) return theirs.get<double>() >= ours.get<double>();
  return static_cast<float>(theirs.get<double>()) == static_cast<float>(ours.get<double>());
}

std::string huggingface_config(const deck::ModelConfig& model, tensor::DType dtype) {
  if (is_mixtral(model) && model.moe.dense_layers > 0)
    base::fail(base::ExitCode::deck,
               "moe.dense_layers = {}: Hugging Face's Mixtral has experts in all layers, so this model has no form "
               "there; with model.qk_norm it would be a Qwen3-MoE, whose first layers may have none",
               model.moe.dense_layers);
  Json config;
  config["architectures"] = {architecture_of(model).class_name};
  config["model_type"] = architecture_of(model).model_type;
  for (const ConfigEntry& entry : config_entries(model)) config[entry.key] = entry.value;
  for (const FixedEntry& fixed : fixed_entries(model)) config[fixed.key] = fixed.value;
  if (is_llama(model)) config["rope_scaling"] = nullptr;
  if (is_qwen3(model)) config["use_sliding_window"] = false;
  if (is_qwen3_moe(model)) {
    config["norm_topk_prob"] = true;
    config["decoder_sparse_step"] = 1;
    config["mlp_only_layers"] = Json::array();
    for (std::int64_t layer = 0; layer < model.moe.dense_layers; ++layer) config["mlp_only_layers"].push_back(layer);
  }
  for (const char* none : {"attn_pdrop", "embd_pdrop", "resid_pdrop"})
    if (!is_llama(model)) config[none] = 0.0;
  for (const char* token : {"bos_token_id", "eos_token_id"}) config[token] = nullptr;  // shard8 knows no tokenizer
  config["torch_dtype"] = dtype == tensor::DType::bf16 ? "bfloat16" : "float32";
  return config.dump(2) + "\n";
}

std::vector<std::string> model_differences(const deck::ModelConfig& checkpoint, const deck::ModelConfig& model) {
  const auto line = [](std::string_view key, const std::string& theirs, const std::string& ours, const char* end) {
    return fmt::format("{} = {} in the checkpoint, and {} in the deck: set {} to {}{}", key, theirs, ours, key, theirs,
                       end);
  };
  if (checkpoint.arch != model.arch)
    return {line("model.arch", std::string(deck::to_string(checkpoint.arch)), std::string(deck::to_string(model.arch)),
                 "")};
  std::vector<std::string> lines;
  if (is_qwen3(checkpoint) != is_qwen3(model))
    lines.push_back(line("model.qk_norm", fmt::format("{}", checkpoint.qk_norm), fmt::format("{}", model.qk_norm), ""));
  const auto number = [&](std::string_view key, std::int64_t of_checkpoint, std::int64_t of_deck) {
    if (of_checkpoint != of_deck)
      lines.push_back(line(key, fmt::format("{}", of_checkpoint), fmt::format("{}", of_deck), ""));
  };
  if (checkpoint.moe.on() != model.moe.on()) number("moe.experts", checkpoint.moe.experts, model.moe.experts);
  if (checkpoint.moe.on() && model.moe.on())
    number("moe.dense_layers", checkpoint.moe.dense_layers, model.moe.dense_layers);
  const bool dense_layers = checkpoint.has_dense_layers() && model.has_dense_layers();
  const auto saved = config_entries(checkpoint);
  for (const ConfigEntry& ours : config_entries(model)) {
    const std::string_view key = ours.deck_key;
    if (ours.at_least && is_llama(model)) continue;
    if (key == "model.head_dim" && !has_other_width(checkpoint) && !has_other_width(model)) continue;
    if (key == "model.ffn" && !dense_layers) continue;
    const auto theirs =
        std::ranges::find(saved, key, [](const ConfigEntry& e) { return std::string_view(e.deck_key); });
    if (theirs != saved.end() && !fits(theirs->value, ours.value, ours.at_least))
      lines.push_back(line(key, shown(theirs->value), shown(ours.value), ours.at_least ? " or less" : ""));
  }
  return lines;
}

}  // namespace shard8::model
