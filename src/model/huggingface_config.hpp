// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "deck/config.hpp"
#include "tensor/dtype.hpp"

namespace shard8::model {

/// The text of the config.json with which Hugging Face Transformers builds the model: LlamaForCausalLM, with
/// model.qk_norm Qwen3ForCausalLM, with experts MixtralForCausalLM, with both Qwen3MoeForCausalLM, or GPT2LMHeadModel.
/// `dtype`, fp32 or bf16, is that of the weights beside it. Error(deck) if the model has experts in some
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
