// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "model/huggingface_config.hpp"

#include <fmt/format.h>

#include "base/text.hpp"
#include "deck/choices.hpp"
#include "model/huggingface_keys.hpp"

namespace shard8::model {

namespace {

bool is_llama(const deck::ModelConfig& model) { return model.arch == deck::Arch::llama; }

}  // namespace

std::vector<ConfigEntry> config_entries(const deck::ModelConfig& m) {
  if (is_llama(m))
    return {{"hidden_size", "model.hidden", m.hidden},
            {"intermediate_size", "model.ffn", m.ffn},
            {"num_hidden_layers", "model.layers", m.layers},
            {"num_attention_heads", "model.heads", m.heads, 32},
            {"num_key_value_heads", "model.kv_heads", m.kv_heads},
            {"vocab_size", "model.vocab", m.vocab},
            {"max_position_embeddings", "model.seq", m.seq, 2048, true},
            {"rms_norm_eps", "model.norm_eps", m.norm_eps, 1e-6},
            {"rope_theta", "model.rope_theta", m.rope_theta, 10000.0},
            {"tie_word_embeddings", "model.tie_embeddings", m.tie_embeddings, false}};
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
  if (is_llama(m))
    return {{"hidden_act", "silu"}, {"attention_bias", false}, {"mlp_bias", false}, {"head_dim", m.hidden / m.heads}};
  return {{"activation_function", "gelu_new"},
          {"scale_attn_weights", true},
          {"scale_attn_by_inverse_layer_idx", false},
          {"add_cross_attention", false}};
}

std::string shown(const ConfigJson& value) {
  return base::quotable(value.dump(-1, ' ', false, ConfigJson::error_handler_t::replace));
}

bool fits(const ConfigJson& theirs, const ConfigJson& ours, bool at_least) {
  if (theirs.is_number() != ours.is_number() || !theirs.is_number()) return theirs == ours;
  if (at_least) return theirs.get<double>() >= ours.get<double>();
  return static_cast<float>(theirs.get<double>()) == static_cast<float>(ours.get<double>());
}

std::string huggingface_config(const deck::ModelConfig& model, tensor::DType dtype) {
  ConfigJson config;
  config["architectures"] = {is_llama(model) ? "LlamaForCausalLM" : "GPT2LMHeadModel"};
  config["model_type"] = deck::to_string(model.arch);
  for (const ConfigEntry& entry : config_entries(model)) config[entry.key] = entry.value;
  for (const FixedEntry& fixed : fixed_entries(model)) config[fixed.key] = fixed.value;
  if (is_llama(model)) config["rope_scaling"] = nullptr;
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
  const auto theirs = config_entries(checkpoint), ours = config_entries(model);
  for (std::size_t i = 0; i < ours.size(); ++i) {
    if (ours[i].at_least && is_llama(model)) continue;
    if (!fits(theirs[i].value, ours[i].value, ours[i].at_least))
      lines.push_back(
          line(ours[i].deck_key, shown(theirs[i].value), shown(ours[i].value), ours[i].at_least ? " or less" : ""));
  }
  return lines;
}

}  // namespace shard8::model
