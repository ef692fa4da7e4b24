// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <utility>

#include "model/parameter_builder.hpp"

namespace shard8::model {

/// Names and shapes of Hugging Face's LlamaDecoderLayer; the order is the one that bind_layer reads.
UnitSpec llama_layer(const deck::ModelConfig& model, const ParameterBuilder& build, std::int64_t layer) {
  const std::string from = fmt::format("model.layers.{}.", layer);
  const std::string to = fmt::format("layers.{}.", layer);
  const std::int64_t head_dim = model.hidden / model.heads;
  const std::int64_t kv = model.kv_heads * head_dim;
  UnitSpec unit{fmt::format("layer {}", layer), {}, true, false, layer};
  auto& p = unit.parameters;
  const auto linear = [&p](fp8::Linear which, ParameterSpec weight) {
    weight.linear = which;
    p.push_back(std::move(weight));
  };
  p.push_back(
      build.replicated_vector(to + "norm1.weight", from + "input_layernorm.weight", model.hidden, Initial::ones));
  linear(fp8::Linear::qkv, build.column_parallel(to + "qkv.weight",
                                                 {{from + "self_attn.q_proj.weight", model.hidden, 0, model.hidden},
                                                  {from + "self_attn.k_proj.weight", kv, 0, kv},
                                                  {from + "self_attn.v_proj.weight", kv, 0, kv}},
                                                 model.hidden));
  linear(fp8::Linear::proj,
         build.row_parallel(to + "proj.weight", from + "self_attn.o_proj.weight", model.hidden, model.hidden));
  p.push_back(build.replicated_vector(to + "norm2.weight", from + "post_attention_layernorm.weight", model.hidden,
                                      Initial::ones));
  linear(fp8::Linear::fc1, build.column_parallel(to + "fc1.weight",
                                                 {{from + "mlp.gate_proj.weight", model.ffn, 0, model.ffn},
                                                  {from + "mlp.up_proj.weight", model.ffn, 0, model.ffn}},
                                                 model.hidden));
  linear(fp8::Linear::fc2,
         build.row_parallel(to + "fc2.weight", from + "mlp.down_proj.weight", model.hidden, model.ffn));
  return unit;
}

}  // namespace shard8::model
