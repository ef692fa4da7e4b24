// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "model/huggingface_config.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "deck/choices.hpp"
#include "model/huggingface_entries.hpp"

namespace shard8::model {

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
