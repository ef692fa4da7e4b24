// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "model/parameter_builder.hpp"

namespace shard8::model {

/// Names and shapes of Hugging Face's GPT2Block, whose projections are stored (in, out); residual
/// projections start with standard deviation init_std/sqrt(2·layers) (Radford et al. 2019, §2.3).
/// The order is the one that bind_layer reads.
UnitSpec gpt2_layer(const deck::ModelConfig& model, const ParameterBuilder& build, std::int64_t layer) {
  const std::string from = fmt::format("transformer.h.{}.", layer);
  const std::string to = fmt::format("layers.{}.", layer);
  const std::int64_t hidden = model.hidden;
  ParameterBuilder projection = build;
  projection.stored_transposed = true;
  ParameterBuilder residual = projection;
  residual.standard_deviation /= std::sqrt(2.0 * static_cast<double>(model.layers));
  const auto third = [&](const std::string& name, std::int64_t i) {
    return ParameterBuilder::Part{from + name, hidden, i * hidden, 3 * hidden};
  };
  const auto vector = [&](const char* name, const char* source, Initial initial) {
    return build.replicated_vector(to + name, from + source, hidden, initial);
  };
  UnitSpec unit{fmt::format("layer {}", layer), {}, true, false, layer};
  auto& p = unit.parameters;
  const auto linear = [&p](fp8::Linear which, ParameterSpec weight) {
    weight.linear = which;
    p.push_back(std::move(weight));
  };
  p.push_back(vector("norm1.weight", "ln_1.weight", Initial::ones));
  p.push_back(vector("norm1.bias", "ln_1.bias", Initial::zeros));
  linear(fp8::Linear::qkv,
         projection.column_parallel(
             to + "qkv.weight",
             {third("attn.c_attn.weight", 0), third("attn.c_attn.weight", 1), third("attn.c_attn.weight", 2)}, hidden));
  p.push_back(projection.column_parallel_bias(
      to + "qkv.bias", {third("attn.c_attn.bias", 0), third("attn.c_attn.bias", 1), third("attn.c_attn.bias", 2)}));
  linear(fp8::Linear::proj, residual.row_parallel(to + "proj.weight", from + "attn.c_proj.weight", hidden, hidden));
  p.push_back(vector("proj.bias", "attn.c_proj.bias", Initial::zeros));
  p.push_back(vector("norm2.weight", "ln_2.weight", Initial::ones));
  p.push_back(vector("norm2.bias", "ln_2.bias", Initial::zeros));
  const ParameterBuilder::Part fc1{from + "mlp.c_fc.weight", model.ffn, 0, model.ffn};
  const ParameterBuilder::Part fc1_bias{from + "mlp.c_fc.bias", model.ffn, 0, model.ffn};
  linear(fp8::Linear::fc1, projection.column_parallel(to + "fc1.weight", {fc1}, hidden));
  p.push_back(projection.column_parallel_bias(to + "fc1.bias", {fc1_bias}));
  linear(fp8::Linear::fc2, residual.row_parallel(to + "fc2.weight", from + "mlp.c_proj.weight", hidden, model.ffn));
  p.push_back(vector("fc2.bias", "mlp.c_proj.bias", Initial::zeros));
  return unit;
}

}  // namespace shard8::model
