// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "deck/config.hpp"
#include "tensor/dtype.hpp"

/// Hugging Face's config.json: its keys and values, its text for a model, and how it differs from a deck.
namespace shard8::model {

using Json = nlohmann::ordered_json;

/// A value of the model under Hugging Face's name and the deck's.
struct ConfigEntry {
  const char* key;
  const char* deck_key;
  Json value;
  /// What Transformers takes if config.json lacks the key; null: the key is not compared then, since shapes of tensors
  /// show the value.
  Json fallback = nullptr;
  bool at_least = false;  ///< config.json's value may be larger
};

/// A value that shard8 computes with and no deck changes. The value is the default of Transformers: config.json may
/// lack it, or say null.
struct FixedEntry {
  const char* key;
  Json value;
};

inline bool is_llama(const deck::ModelConfig& model) { return model.arch == deck::Arch::llama; }
/// A llama with norms of queries and keys is Hugging Face's Qwen3, with experts Qwen3-MoE.
inline bool is_qwen3(const deck::ModelConfig& model) { return is_llama(model) && model.qk_norm; }
inline bool is_qwen3_moe(const deck::ModelConfig& model) { return is_qwen3(model) && model.moe.on(); }
/// A llama with experts and without these norms is Hugging Face's Mixtral, all of whose layers have experts.
inline bool is_mixtral(const deck::ModelConfig& model) { return is_llama(model) && model.moe.on() && !model.qk_norm; }

/// Whether heads are not hidden / heads wide. Otherwise differences of these two numbers are all that need be said.
inline bool has_other_width(const deck::ModelConfig& model) { return model.query_width() != model.hidden; }

/// Whether Transformers has a number for a width of heads that config.json lacks, as Qwen3Config alone does. In all
/// other configurations the width is hidden_size / num_attention_heads then.
inline bool has_default_width(const deck::ModelConfig& m) { return is_qwen3(m) && !m.moe.on(); }

/// What Hugging Face calls an architecture.
struct Architecture {
  std::string_view model_type, class_name;
  deck::Arch arch;
  bool qk_norm;
  bool experts;
};
inline constexpr std::array kArchitectures{
    Architecture{"llama", "LlamaForCausalLM", deck::Arch::llama, false, false},
    Architecture{"mixtral", "MixtralForCausalLM", deck::Arch::llama, false, true},
    Architecture{"qwen3", "Qwen3ForCausalLM", deck::Arch::llama, true, false},
    Architecture{"qwen3_moe", "Qwen3MoeForCausalLM", deck::Arch::llama, true, true},
    Architecture{"gpt2", "GPT2LMHeadModel", deck::Arch::gpt2, false, false},
};
const Architecture& architecture_of(const deck::ModelConfig& model);

/// The values of a model that a deck has, too.
std::vector<ConfigEntry> config_entries(const deck::ModelConfig& m);
/// The values of a model that no deck has.
std::vector<FixedEntry> fixed_entries(const deck::ModelConfig& m);

/// A value as messages show it.
std::string shown(const Json& value);

/// Whether a value of config.json is that of the model. Numbers are compared as fp32, since models compute with that.
bool fits(const Json& theirs, const Json& ours, bool at_least);

}  // namespace shard8::model

namespace shard8::model {

/// The text of the config.json with which Hugging Face Transformers builds the model: LlamaForCausalLM, with
/// model.qk_norm Qwen3ForCausalLM, with experts MixtralForCausalLM, with both Qwen3MoeForCausalLM, or GPT2LMHeadModel.
/// `dtype`, fp32 or bf16, is the dtype of the weights in the same folder. Error(deck) if the model has experts in some
/// layers only and no model.qk_norm: it would be a Mixtral, and all layers of a Mixtral have experts.
std::string huggingface_config(const deck::ModelConfig& model, tensor::DType dtype);

/// How the model of a config.json differs from a deck's: for each difference a line with the key, both values and what
/// to do; empty if they agree. Keys that the text does not have are Hugging Face's defaults, or are not compared if
/// shapes of tensors show them. Error(deck) with `path` if the text is no JSON object.
std::vector<std::string> config_differences(std::string_view text, const std::string& path,
                                            const deck::ModelConfig& model);

/// How the model of a checkpoint differs from a deck's, in the deck's words. Not compared are model.seq of a llama, how
/// weights are initialised, and what backward recomputes.
std::vector<std::string> model_differences(const deck::ModelConfig& checkpoint, const deck::ModelConfig& model);

}  // namespace shard8::model
