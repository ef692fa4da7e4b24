// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "deck/choices.hpp"
#include "model/huggingface_entries.hpp"

namespace shard8::model {

namespace {

Json parsed(std::string_view text, const std::string& path) {
  std::string why = "it is no object";
  try {
    Json config = base::parse_json<Json>(text);
    if (config.is_object()) return config;
  } catch (const base::JsonProblem& problem) {
    why = problem.what();
  }
  base::fail(base::ExitCode::deck,
             "'{}': not a configuration of Hugging Face, which is a JSON object: {}; copy it again", path, why);
}

/// The value at a path of keys with dots; null if there is none.
Json value_at(const Json& config, const std::string& path) {
  const auto dot = path.find('.');
  if (!config.is_object()) return nullptr;
  const auto found = config.find(path.substr(0, dot));
  if (found == config.end()) return nullptr;
  return dot == std::string::npos ? *found : value_at(*found, path.substr(dot + 1));
}

/// All places in which Transformers 4 and 5 look for a key: the attribute_maps of GPT2Config, MixtralConfig and
/// Qwen3MoeConfig, and the dictionaries of rotary embeddings, of which version 5 uses rope_parameters.
std::vector<std::string> places_of(const std::string& key) {
  if (key == "n_embd") return {key, "hidden_size"};
  if (key == "n_layer") return {key, "num_hidden_layers"};
  if (key == "n_head") return {key, "num_attention_heads"};
  if (key == "n_positions") return {key, "max_position_embeddings"};
  if (key == "rope_theta" || key == "partial_rotary_factor")
    return {key, "rope_parameters." + key, "rope_scaling." + key};
  if (key == "num_experts") return {key, "num_local_experts"};
  if (key == "num_local_experts") return {key, "num_experts"};
  return {key};
}

/// The names of Transformers for what a value names, that one first.
std::vector<Json> same_as(const Json& value) {
  if (value == "silu") return {value, "swish"};
  if (value == "gelu_new") return {value, "gelu_pytorch_tanh", "gelu_fast"};
  return {value};
}

/// A value that messages compare with the deck's, and the key of config.json from which it comes.
struct Found {
  std::string name;
  Json value;        ///< null: the key is absent, or null
  std::string note;  ///< for messages, where Transformers takes the value and config.json does not say it
};
constexpr const char* kByDefault = " (Hugging Face's default)";

/// The value as a positive integer, 32.0 as 32; nothing if it is no positive integer, or above 2^53, from where on
/// doubles do not hold every integer.
std::optional<std::int64_t> count_of(const Json& value) {
  constexpr double kMost = 9007199254740992.0;
  if (!value.is_number()) return std::nullopt;
  const auto number = value.get<double>();
  if (!(number >= 1 && number <= kMost) || number != std::floor(number)) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

/// What a value of config.json must be to stand where `ours` stands, if it is not: "no positive integer". Otherwise
/// empty.
std::string_view what_it_is_not(const Json& theirs, const Json& ours) {
  if (ours.is_boolean()) return theirs.is_boolean() ? "" : "neither true nor false";
  if (ours.is_string()) return theirs.is_string() ? "" : "no text";
  if (ours.is_number_integer()) return count_of(theirs) ? "" : "no positive integer";
  return theirs.is_number() && theirs.get<double>() > 0 ? "" : "no positive number";
}

/// Compares one config.json with the model of a deck, line by line.
class Comparison {
 public:
  Comparison(const Json& config, const deck::ModelConfig& model) : config_(config), model_(model) {}

  std::vector<std::string> lines() {
    if (!is_same_architecture()) return lines_;
    for (const ConfigEntry& entry : config_entries(model_)) compare(entry);
    for (const FixedEntry& entry : fixed_entries(model_)) require(entry.key, same_as(entry.value));
    require("is_causal", {true});
    if (is_llama(model_)) {
      require("partial_rotary_factor", {1.0});
      refuse_scaled_rope("rope_scaling");
      refuse_scaled_rope("rope_parameters");
      refuse_windows();
    }
    if (is_qwen3_moe(model_)) {
      require_normalised_weights();
      compare_dense_layers();
    }
    if (is_mixtral(model_) && model_.moe.dense_layers > 0)
      add("all layers of a mixtral have experts, but moe.dense_layers = {}: set moe.dense_layers to 0",
          model_.moe.dense_layers);
    refuse_other_weights();
    return lines_;
  }

 private:
  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    lines_.push_back(fmt::format(format, std::forward<Args>(args)...));
  }

  /// Adds a line for a value that no model has.
  void add_wrong(const Found& theirs, std::string_view what) {
    add("{} = {}{}, which is {}: correct it in config.json, or copy the file again", theirs.name, shown(theirs.value),
        theirs.note, what);
  }

  std::string_view arch() const { return deck::to_string(model_.arch); }

  /// The value of a key under any of its names. A line is added if two of them disagree.
  Found find(const std::string& key) {
    Found found{key, nullptr, {}};
    for (const std::string& name : places_of(key)) {
      const Json value = value_at(config_, name);
      if (value.is_null()) continue;
      if (found.value.is_null())
        found = {name, value, {}};
      else if (!fits(value, found.value, false))
        add("{} = {} and {} = {} contradict each other: take the wrong one out", found.name, shown(found.value), name,
            shown(value));
    }
    return found;
  }

  /// As find(), with the value that Transformers takes where config.json lacks the key. The value is null if shapes of
  /// tensors show it.
  Found taken(const ConfigEntry& entry) {
    Found found = find(entry.key);
    if (!found.value.is_null()) return found;
    const std::string key = entry.key;
    if (key == "num_key_value_heads" && takes_heads(entry.fallback)) {
      const Json heads = value_at(config_, "num_attention_heads");
      if (!heads.is_null() || entry.fallback.is_null())
        found = {"num_attention_heads", heads, " (also the num_key_value_heads)"};
      else
        found = {"num_attention_heads", 32, " (Hugging Face's default, also the num_key_value_heads)"};
    }
    if (key == "head_dim" && !has_default_width(model_) && has_other_width(model_))
      found = {"hidden_size / num_attention_heads", divided_width(), {}};
    if (key == "n_inner") found = four_widths();
    if (!found.value.is_null()) return found;
    return {entry.key, entry.fallback, kByDefault};
  }

  /// What Transformers takes for the n_inner of a GPT-2; null if config.json has no such number.
  Found four_widths() const {
    for (const std::string& name : places_of("n_embd")) {
      const Json width = value_at(config_, name);
      if (width.is_null()) continue;
      const auto count = count_of(width);
      return {"4 * " + name, count ? Json(4 * *count) : Json(), {}};
    }
    return {};
  }

  /// Whether Transformers takes num_attention_heads for the num_key_value_heads of a config.json that has no number
  /// there. MixtralConfig and Qwen3Config do so for a null, and have a number where the key is absent. Qwen3MoeConfig
  /// refuses a null.
  bool takes_heads(const Json& fallback) const {
    return fallback.is_null() || (!is_qwen3_moe(model_) && config_.contains("num_key_value_heads"));
  }

  /// hidden_size / num_attention_heads, which Transformers takes for the width of a llama's head; null if config.json
  /// has no such numbers.
  Json divided_width() const {
    const auto hidden = count_of(value_at(config_, "hidden_size"));
    const auto heads = count_of(value_at(config_, "num_attention_heads"));
    return hidden && heads ? Json(*hidden / *heads) : Json();
  }

  void compare(const ConfigEntry& entry) {
    if (entry.deck_key == std::string_view("model.ffn") && !model_.has_dense_layers()) return;  // no layer has it
    const Found theirs = taken(entry);
    if (theirs.value.is_null() || fits(theirs.value, entry.value, entry.at_least)) return;
    if (const auto what = what_it_is_not(theirs.value, entry.value); !what.empty()) return add_wrong(theirs, what);
    const auto count = entry.value.is_number_integer() ? count_of(theirs.value) : std::nullopt;
    add("{} = {}{}, but {} = {}: set {} to {}{}", theirs.name, shown(theirs.value), theirs.note, entry.deck_key,
        shown(entry.value), entry.deck_key, count ? fmt::format("{}", *count) : shown(theirs.value),
        entry.at_least ? " or less" : remedy_in_config(entry));
  }

  /// The other remedy of a tie_word_embeddings that differs: the file of weights, which is not seen here, may need the
  /// deck's value.
  static std::string_view remedy_in_config(const ConfigEntry& entry) {
    if (entry.key != std::string_view("tie_word_embeddings")) return "";
    return entry.value == true
               ? ", or, if the weights have no head of their own, tie_word_embeddings in config.json to "
                 "true"
               : ", or, if the weights have a head of their own, tie_word_embeddings in config.json to "
                 "false";
  }

  /// Adds a line unless config.json lacks the key or has one of the values.
  void require(const char* key, const std::vector<Json>& values) {
    const Found theirs = find(key);
    if (theirs.value.is_null()) return;
    const auto fitting = [&](const Json& value) { return fits(theirs.value, value, false); };
    if (std::any_of(values.begin(), values.end(), fitting)) return;
    if (const auto what = what_it_is_not(theirs.value, values.front()); !what.empty())
      add_wrong(theirs, what);
    else
      add("{} = {}, but shard8 computes a {} with {}: use weights of such a model", theirs.name, shown(theirs.value),
          arch(), shown(values.front()));
  }

  /// Whether config.json names the deck's architecture, or none. If it names another one, adds a line.
  bool is_same_architecture() {
    Found theirs{"model_type", value_at(config_, "model_type"), {}};
    std::string name = theirs.value.is_string() ? theirs.value.get<std::string>() : std::string();
    if (theirs.value.is_null()) {
      theirs = {"architectures", value_at(config_, "architectures"), {}};
      if (!theirs.value.is_array() || theirs.value.empty() || !theirs.value[0].is_string()) return true;
      name = theirs.value[0].get<std::string>();
      if (name.starts_with("Llama")) name = "llama";
      if (name.starts_with("GPT2")) name = "gpt2";
      if (name.starts_with("Mixtral")) name = "mixtral";
      if (name == "Qwen3ForCausalLM" || name == "Qwen3Model") name = "qwen3";
      if (name == "Qwen3MoeForCausalLM" || name == "Qwen3MoeModel") name = "qwen3_moe";
    }
    const auto known = std::ranges::find(kArchitectures, name, &Architecture::model_type);
    if (known == kArchitectures.end()) {
      add("{} = {}, but shard8 has llama, mixtral, qwen3, qwen3_moe and gpt2: use weights of such a model", theirs.name,
          shown(theirs.value));
      return false;
    }
    if (known->arch != model_.arch) {
      add("{} = {}, but model.arch = {}: set model.arch to {}{}{}", theirs.name, shown(theirs.value), arch(),
          deck::to_string(known->arch), known->qk_norm ? " and model.qk_norm to true" : "",
          known->experts ? " and moe.experts to " + number_of_experts(*known) : "");
      return false;
    }
    if (known->qk_norm != is_qwen3(model_))
      add("{} = {}, but model.qk_norm = {}: set model.qk_norm to {}", theirs.name, shown(theirs.value), model_.qk_norm,
          known->qk_norm);
    if (known->experts != model_.moe.on())
      add("{} = {}, but moe.experts = {}: set moe.experts to {}", theirs.name, shown(theirs.value), model_.moe.experts,
          known->experts ? number_of_experts(*known) : "0");
    return &*known == &architecture_of(model_);
  }

  /// The number of experts of a config.json of this architecture, as messages show it.
  std::string number_of_experts(const Architecture& architecture) {
    const Found found = find(architecture.qk_norm ? "num_experts" : "num_local_experts");
    if (found.value.is_null()) return architecture.qk_norm ? "128" : "8";
    if (const auto count = count_of(found.value)) return fmt::format("{}", *count);
    return fmt::format("their number, and correct {} = {} in config.json", found.name, shown(found.value));
  }

  /// Adds a line unless the weights of a token's experts add up to 1. Qwen3MoeConfig does without by default.
  void require_normalised_weights() {
    const Found theirs = find("norm_topk_prob");
    if (theirs.value == true) return;
    add("norm_topk_prob = {}, but shard8 divides the weights of a token's experts by their sum: use weights of such a "
        "model",
        theirs.value.is_null() ? "false (Hugging Face's default)" : shown(theirs.value));
  }

  static bool is_list_of_integers(const Json& value) {
    return value.is_array() &&
           std::all_of(value.begin(), value.end(), [](const Json& entry) { return entry.is_number_integer(); });
  }

  /// Compares the layers that have experts. Qwen3MoeConfig names those that have none (mlp_only_layers), and a step
  /// (decoder_sparse_step) of which the numbers of all others are multiples, counted from 1.
  void compare_dense_layers() {
    const Json named = value_at(config_, "mlp_only_layers"), step = value_at(config_, "decoder_sparse_step");
    const std::string theirs = fmt::format("mlp_only_layers = {} and decoder_sparse_step = {}",
                                           named.is_null() ? "[]" : shown(named), step.is_null() ? "1" : shown(step));
    const bool usable = (step.is_null() || (step.is_number_integer() && step.get<std::int64_t>() > 0)) &&
                        (named.is_null() || is_list_of_integers(named));
    if (!usable)
      return add("{}: not a list of integers and a positive integer; correct it in config.json, or copy the file again",
                 theirs);
    const std::int64_t every = step.is_null() ? 1 : step.get<std::int64_t>();
    const auto is_dense = [&](std::int64_t layer) {
      return (layer + 1) % every != 0 || std::find(named.begin(), named.end(), Json(layer)) != named.end();
    };
    std::int64_t first = 0, dense = 0;  // the dense layers at the beginning, and all
    while (first < model_.layers && is_dense(first)) ++first;
    for (std::int64_t layer = 0; layer < model_.layers; ++layer) dense += is_dense(layer) ? 1 : 0;
    if (first == model_.layers)
      add("{}, so no layer has experts: set moe.experts to 0, and model.ffn to the layers' width", theirs);
    else if (dense > first)
      add("{}, but in shard8 layers without experts come first: use weights of such a model", theirs);
    else if (first != model_.moe.dense_layers)
      add("{}, but moe.dense_layers = {}: set moe.dense_layers to {}", theirs, model_.moe.dense_layers, first);
  }

  /// Refuses all but the plain rotary embedding.
  void refuse_scaled_rope(const std::string& key) {
    constexpr const char* kPlain = "but shard8 has the plain rotary embedding alone: use weights of such a model";
    const Json rope = value_at(config_, key);
    if (rope.is_null()) return;
    if (!rope.is_object()) return add("{} = {}, {}", key, shown(rope), kPlain);
    bool typed = false;
    for (const char* name : {"rope_type", "type"}) {
      const Json type = value_at(rope, name);
      if (!type.is_null() && type != "default") return add("{} has {} = {}, {}", key, name, shown(type), kPlain);
      typed = typed || !type.is_null();
    }
    for (const auto& [name, value] : rope.items()) {
      if (value.is_object())  // one embedding for each kind of layer
        return add("{} has {} = {}, {}", key, base::quotable(name), shown(value), kPlain);
      if (!typed && may_scale_rope(name, value))
        return add("{} has {} = {} and no rope_type, {}", key, base::quotable(name), shown(value), kPlain);
    }
  }

  /// Whether an entry of a scaling without a type may change the embedding. The type default has no factors.
  static bool may_scale_rope(std::string_view name, const Json& value) {
    constexpr std::array<std::string_view, 5> kPlain{"rope_type", "type", "rope_theta", "partial_rotary_factor",
                                                     "original_max_position_embeddings"};
    if (value.is_null() || std::ranges::find(kPlain, name) != kPlain.end()) return false;
    return name != "factor" || value != 1;
  }

  /// Refuses attention to fewer tokens than all tokens before.
  void refuse_windows() {
    const Json used = value_at(config_, "use_sliding_window");
    Json window = value_at(config_, "sliding_window");
    if (is_qwen3(model_)) {  // Qwen3Config has no window unless it is used, and then one of 4096 if it says nothing
      const bool uses = !used.is_null() && used != false;
      if (!uses) window = nullptr;
      if (uses && config_.find("sliding_window") == config_.end()) window = 4096;
    } else if (!is_mixtral(model_) && used == false) {  // MixtralConfig has no such key; LlamaConfig has no window
      window = nullptr;
    }
    if (!window.is_null() && !count_of(window))
      add_wrong({"sliding_window", window, {}}, "no positive integer");
    else if (!window.is_null() && *count_of(window) < model_.seq)
      add("sliding_window = {}, but shard8 attends to all tokens of model.seq = {}: set model.seq to {} or less",
          shown(window), model_.seq, *count_of(window));
    const Json types = value_at(config_, "layer_types");
    if (types.is_null()) return;
    if (!types.is_array()) return add_wrong({"layer_types", types, {}}, "no list");
    for (const Json& type : types)
      if (type != "full_attention")
        return add("layer_types has {}, but shard8 has \"full_attention\" in all layers: use weights of such a model",
                   shown(type));
  }

  void refuse_other_weights() {
    if (const Json quantized = value_at(config_, "quantization_config"); !quantized.is_null()) {
      const Json method = value_at(quantized, "quant_method");
      add("quantization_config{}{}, but shard8 reads no quantized weights: give a copy in bf16 or fp32",
          method.is_null() ? "" : " has quant_method = ", method.is_null() ? " is there" : shown(method));
    }
    if (const Json layers = value_at(config_, "per_layer_config"); !layers.is_null() && !layers.empty())
      add("per_layer_config is there, but shard8 has equal layers: use weights of such a model");
  }

  const Json& config_;
  const deck::ModelConfig& model_;
  std::vector<std::string> lines_;
};
}  // namespace

std::vector<std::string> config_differences(std::string_view text, const std::string& path,
                                            const deck::ModelConfig& model) {
  const Json config = parsed(text, path);
  return Comparison(config, model).lines();
}

}  // namespace shard8::model
