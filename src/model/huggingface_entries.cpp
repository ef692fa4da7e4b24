// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "model/huggingface_entries.hpp"

#include <algorithm>

#include "base/text.hpp"

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

}  // namespace shard8::model
