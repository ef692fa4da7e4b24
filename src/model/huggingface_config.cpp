// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "model/huggingface_config.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/text.hpp"
#include "deck/choices.hpp"

namespace shard8::model {

namespace {

using Json = nlohmann::ordered_json;

/// A value of the model under Hugging Face's name and the deck's.
struct Entry {
  const char* key;
  const char* deck_key;
  Json value;
  /// What Transformers takes if config.json lacks the key; null: the key is not compared then.
  Json fallback = nullptr;
  bool at_least = false;  ///< config.json's value may be larger
};

/// A value that shard8 computes with and no deck changes. config.json may lack it, or say null.
struct Fixed {
  const char* key;
  Json value;
};

bool is_llama(const deck::ModelConfig& model) { return model.arch == deck::Arch::llama; }

std::vector<Entry> entries_of(const deck::ModelConfig& m) {
  if (is_llama(m))
    return {{"hidden_size", "model.hidden", m.hidden},
            {"intermediate_size", "model.ffn", m.ffn},
            {"num_hidden_layers", "model.layers", m.layers},
            {"num_attention_heads", "model.heads", m.heads},
            {"num_key_value_heads", "model.kv_heads", m.kv_heads},
            {"vocab_size", "model.vocab", m.vocab},
            {"max_position_embeddings", "model.seq", m.seq, 2048, true},
            {"rms_norm_eps", "model.norm_eps", m.norm_eps, 1e-6},
            {"rope_theta", "model.rope_theta", m.rope_theta, 10000.0},
            {"tie_word_embeddings", "model.tie_embeddings", m.tie_embeddings, false}};
  return {{"n_embd", "model.hidden", m.hidden},
          {"n_inner", "model.ffn", m.ffn},
          {"n_layer", "model.layers", m.layers},
          {"n_head", "model.heads", m.heads},
          {"vocab_size", "model.vocab", m.vocab},
          {"n_positions", "model.seq", m.seq, 1024, true},
          {"layer_norm_epsilon", "model.norm_eps", m.norm_eps, 1e-5},
          {"tie_word_embeddings", "model.tie_embeddings", m.tie_embeddings, true}};
}

std::vector<Fixed> fixed_of(const deck::ModelConfig& m) {
  if (is_llama(m))
    return {{"hidden_act", "silu"}, {"attention_bias", false}, {"mlp_bias", false}, {"head_dim", m.hidden / m.heads}};
  return {{"activation_function", "gelu_new"},
          {"scale_attn_weights", true},
          {"scale_attn_by_inverse_layer_idx", false},
          {"add_cross_attention", false}};
}

std::string shown(const Json& value) {
  return base::quotable(value.dump(-1, ' ', false, Json::error_handler_t::replace));
}

/// Numbers are compared as fp32, since models compute with that.
bool fits(const Json& theirs, const Json& ours, bool at_least) {
  if (theirs.is_number() != ours.is_number() || !theirs.is_number()) return theirs == ours;
  if (at_least) return theirs.get<double>() >= ours.get<double>();
  return static_cast<float>(theirs.get<double>()) == static_cast<float>(ours.get<double>());
}

/// config.json's value of a key; null if it has none.
Json value_of(const Json& config, const std::string& key) {
  if (const auto found = config.find(key); found != config.end() && !found->is_null()) return *found;
  if (key == "num_key_value_heads") return value_of(config, "num_attention_heads");
  if (key == "n_inner") {
    const Json width = value_of(config, "n_embd");
    return width.is_number_integer() ? Json(4 * width.get<std::int64_t>()) : Json();
  }
  if (key == "rope_theta") {  // Transformers 5 keeps it in rope_parameters
    const auto rope = config.find("rope_parameters");
    if (rope != config.end() && rope->is_object()) return value_of(*rope, key);
  }
  return nullptr;
}

/// The kind of scaled rotary embedding that config.json asks for; empty: the plain one.
std::string scaled_rope(const Json& config) {
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const auto found = config.find(key);
    if (found == config.end() || !found->is_object()) continue;
    for (const char* name : {"rope_type", "type"})
      if (const Json type = value_of(*found, name); !type.is_null() && type != "default")
        return fmt::format("{} has {} = {}", key, name, shown(type));
  }
  return {};
}

Json parsed(std::string_view text, const std::string& path) {
  std::string why = "it is no object";
  try {
    Json config = Json::parse(text);
    if (config.is_object()) return config;
  } catch (const nlohmann::json::exception& error) {
    why = base::quotable(error.what());
  }
  base::fail(base::ExitCode::deck,
             "'{}': not a configuration of Hugging Face, which is a JSON object: {}; copy it again", path, why);
}

}  // namespace

std::string huggingface_config(const deck::ModelConfig& model, tensor::DType dtype) {
  Json config;
  config["architectures"] = {is_llama(model) ? "LlamaForCausalLM" : "GPT2LMHeadModel"};
  config["model_type"] = deck::to_string(model.arch);
  for (const Entry& entry : entries_of(model)) config[entry.key] = entry.value;
  for (const Fixed& fixed : fixed_of(model)) config[fixed.key] = fixed.value;
  if (is_llama(model)) config["rope_scaling"] = nullptr;
  for (const char* none : {"attn_pdrop", "embd_pdrop", "resid_pdrop"})
    if (!is_llama(model)) config[none] = 0.0;
  for (const char* token : {"bos_token_id", "eos_token_id"}) config[token] = nullptr;  // shard8 knows no tokenizer
  config["torch_dtype"] = dtype == tensor::DType::bf16 ? "bfloat16" : "float32";
  return config.dump(2) + "\n";
}

std::vector<std::string> config_differences(std::string_view text, const std::string& path,
                                            const deck::ModelConfig& model) {
  const Json config = parsed(text, path);
  const Json type = value_of(config, "model_type");
  const auto arch = deck::to_string(model.arch);
  if (!type.is_null() && type != arch) {
    const bool known = type == deck::to_string(deck::Arch::llama) || type == deck::to_string(deck::Arch::gpt2);
    return {known ? fmt::format("model_type = {}, but model.arch = {}: set model.arch to {}", shown(type), arch,
                                type.get<std::string>())
                  : fmt::format("model_type = {}, but shard8 has llama and gpt2: use weights of such a model",
                                shown(type))};
  }
  std::vector<std::string> lines;
  for (const Entry& entry : entries_of(model)) {
    Json theirs = value_of(config, entry.key);
    const bool missing = theirs.is_null();
    if (missing) theirs = entry.fallback;
    if (theirs.is_null() || fits(theirs, entry.value, entry.at_least)) continue;
    lines.push_back(fmt::format("{} = {}{}, but {} = {}: set {} to {}{}", entry.key, shown(theirs),
                                missing ? " (Hugging Face's default)" : "", entry.deck_key, shown(entry.value),
                                entry.deck_key, shown(theirs), entry.at_least ? " or less" : ""));
  }
  for (const Fixed& fixed : fixed_of(model)) {
    const Json theirs = value_of(config, fixed.key);
    if (!theirs.is_null() && !fits(theirs, fixed.value, false))
      lines.push_back(fmt::format("{} = {}, but shard8 computes a {} with {}: use weights of such a model", fixed.key,
                                  shown(theirs), arch, shown(fixed.value)));
  }
  if (const std::string scaled = is_llama(model) ? scaled_rope(config) : ""; !scaled.empty())
    lines.push_back(scaled + ", but shard8 has the plain rotary embedding alone: use weights of such a model");
  return lines;
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
  const auto theirs = entries_of(checkpoint), ours = entries_of(model);
  for (std::size_t i = 0; i < ours.size(); ++i) {
    if (ours[i].at_least && is_llama(model)) continue;
    if (!fits(theirs[i].value, ours[i].value, ours[i].at_least))
      lines.push_back(
          line(ours[i].deck_key, shown(theirs[i].value), shown(ours[i].value), ours[i].at_least ? " or less" : ""));
  }
  return lines;
}

}  // namespace shard8::model
