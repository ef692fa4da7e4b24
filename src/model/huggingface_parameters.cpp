// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "model/dims.hpp"
#include "model/parameters.hpp"

// Names and shapes of Hugging Face's LlamaForCausalLM, MixtralForCausalLM, Qwen3ForCausalLM, Qwen3MoeForCausalLM and
// GPT2LMHeadModel, and how each rank's parameters are cut from them.

namespace shard8::model {

namespace {

/// Rows of a column-parallel parameter that come from rows [first, first + rows) of the tensor `name`.
struct Part {
  std::string name;
  std::int64_t rows = 0;  ///< over all tensor ranks
  std::int64_t first = 0;
  std::int64_t of = rows;  ///< rows of the tensor `name`
};

/// The last part of a parameter's name, in the order of Parameter.
constexpr std::array kNames{"table",        "positions",     "norm1.weight",       "norm1.bias",         "qkv.weight",
                            "qkv.bias",     "q_norm.weight", "k_norm.weight",      "proj.weight",        "proj.bias",
                            "norm2.weight", "norm2.bias",    "fc1.weight",         "fc1.bias",           "fc2.weight",
                            "fc2.bias",     "router.weight", "experts.fc1.weight", "experts.fc2.weight", "norm.weight",
                            "norm.bias",    "head.weight"};
/// The linear to which a weight belongs; nothing for other parameters.
std::optional<fp8::Linear> linear_of(Parameter weight) {
  switch (weight) {
    case Parameter::qkv_weight:
      return fp8::Linear::qkv;
    case Parameter::proj_weight:
      return fp8::Linear::proj;
    case Parameter::fc1_weight:
    case Parameter::experts_fc1:
      return fp8::Linear::fc1;
    case Parameter::fc2_weight:
    case Parameter::experts_fc2:
      return fp8::Linear::fc2;
    default:
      return std::nullopt;
  }
}

/// Takes the parameters of a unit, which must come in this order.
class Unit {
 public:
  Unit(UnitSpec unit, std::string prefix, std::span<const Parameter> order)
      : unit_(std::move(unit)), prefix_(std::move(prefix)), order_(order) {}
  void add(Parameter which, ParameterSpec parameter) {
    const std::size_t at = unit_.parameters.size();
    const char* name = kNames[static_cast<std::size_t>(which)];
    SHARD8_REQUIRE(at < order_.size() && order_[at] == which, "{} has no parameter '{}' in place {}", unit_.name, name,
                   at);
    parameter.name = prefix_ + name;
    parameter.linear = linear_of(which);
    unit_.parameters.push_back(std::move(parameter));
  }
  UnitSpec take() {
    SHARD8_REQUIRE(unit_.parameters.size() == order_.size(), "{} has {} parameters, not {}", unit_.name,
                   unit_.parameters.size(), order_.size());
    return std::move(unit_);
  }

 private:
  UnitSpec unit_;
  std::string prefix_;
  std::span<const Parameter> order_;
};

/// Cuts the parameters of Hugging Face tensors for one tensor rank.
class Cutter {
 public:
  Cutter(const deck::ModelConfig& model, const base::Place& place)
      : model_(model), place_(place), tensor_(place.mesh().ranks(kCut)), rank_(place.rank(kCut)) {}

  UnitSpec embedding() const;
  UnitSpec layer(std::int64_t layer) const;
  UnitSpec root() const;
  UnitSpec experts(std::int64_t layer) const;

 private:
  /// The axes along which parameters are cut.
  static constexpr base::AxisSet kCut = base::AxisSet::tensor;
  /// A parameter (rows, cols) before its sources are known. A vector has cols 0.
  ParameterSpec parameter(base::AxisSet cut, std::int64_t rows, std::int64_t cols, Initial initial) const;
  /// A weight (out, in) of several parts, one below the other, each cut on its rows; a bias (out) for in = 0.
  ParameterSpec column_parallel(const std::vector<Part>& parts, std::int64_t in) const;
  /// A weight (out, in) cut on its columns.
  ParameterSpec row_parallel(const std::string& source, std::int64_t out, std::int64_t in) const;
  /// A table (vocab, hidden) cut on its rows; the last ranks have padding rows.
  ParameterSpec vocabulary(const std::string& source) const;
  /// A parameter (rows, cols) that every tensor rank holds whole; a vector for cols = 0.
  ParameterSpec replicated(const std::string& source, std::int64_t rows, std::int64_t cols, Initial initial) const;
  ParameterSpec ones(const std::string& source) const { return replicated(source, model_.hidden, 0, Initial::ones); }
  ParameterSpec zeros(const std::string& source) const { return replicated(source, model_.hidden, 0, Initial::zeros); }

  bool gpt2() const { return model_.arch == deck::Arch::gpt2; }
  std::string table() const { return gpt2() ? "transformer.wte.weight" : "model.embed_tokens.weight"; }
  std::string layer_name(std::int64_t layer) const {
    return fmt::format("{}.{}.", gpt2() ? "transformer.h" : "model.layers", layer);
  }
  /// The module that has a layer's router and experts.
  std::string experts_name(std::int64_t layer) const {
    return layer_name(layer) + (model_.qk_norm ? "mlp." : "block_sparse_moe.");
  }
  /// The tensors that are parts of an expert's parameter, one below the other, each (rows, cols).
  ParameterSpec of_experts(const std::string& from, const std::vector<std::string>& parts, std::int64_t rows,
                           std::int64_t cols) const;
  void add_llama_layer(Unit& unit, std::int64_t layer) const;
  void add_gpt2_layer(Unit& unit, const std::string& from) const;

  const deck::ModelConfig& model_;
  base::Place place_;
  int tensor_, rank_;
};

ParameterSpec Cutter::parameter(base::AxisSet cut, std::int64_t rows, std::int64_t cols, Initial initial) const {
  ParameterSpec p;
  p.sharing.cut = cut;
  p.rows = rows;
  p.cols = std::max<std::int64_t>(cols, 1);
  p.vector = cols == 0;
  p.initial = initial;
  if (initial == Initial::normal) p.standard_deviation = model_.init_std;
  return p;
}

ParameterSpec Cutter::column_parallel(const std::vector<Part>& parts, std::int64_t in) const {
  ParameterSpec p = parameter(kCut, 0, in, in == 0 ? Initial::zeros : Initial::normal);
  p.gradient_overwritten = in > 0;
  for (const Part& part : parts) {
    const std::int64_t rows = part.rows / tensor_;
    p.sources.push_back(
        {part.name, p.rows, {part.first + rank_ * rows, rows, 0, p.cols}, part.of, p.cols, gpt2() && in > 0});
    p.rows += rows;
  }
  return p;
}

ParameterSpec Cutter::row_parallel(const std::string& source, std::int64_t out, std::int64_t in) const {
  ParameterSpec p = parameter(kCut, out, in / tensor_, Initial::normal);
  p.gradient_overwritten = true;
  p.sources.push_back({source, 0, {0, out, rank_ * p.cols, p.cols}, out, in, gpt2()});
  return p;
}

ParameterSpec Cutter::vocabulary(const std::string& source) const {
  const VocabRange range = vocab_range(model_.vocab, tensor_, rank_);
  ParameterSpec p = parameter(kCut, (model_.vocab + tensor_ - 1) / tensor_, model_.hidden, Initial::normal);
  p.sources.push_back({source, 0, {range.first, range.valid, 0, model_.hidden}, model_.vocab, model_.hidden, false});
  return p;
}

ParameterSpec Cutter::replicated(const std::string& source, std::int64_t rows, std::int64_t cols,
                                 Initial initial) const {
  ParameterSpec p = parameter({}, rows, cols, initial);
  p.sources.push_back({source, 0, {0, rows, 0, p.cols}, rows, p.cols, false});
  return p;
}

/// The ranks of an expert group divide the experts evenly, in their order: rank 0 holds the first ones. Every rank
/// lists the tensors of all experts as sources, so that all ranks have the same list. The sources of experts that other
/// ranks hold have no rows.
ParameterSpec Cutter::of_experts(const std::string& from, const std::vector<std::string>& parts, std::int64_t rows,
                                 std::int64_t cols) const {
  const base::Sharing sharing = base::expert_sharing(place_.mesh());
  ParameterSpec p = parameter(sharing.cut, 0, cols, Initial::normal);
  p.sharing = sharing;
  p.of_experts = true;
  p.gradient_overwritten = true;
  const std::int64_t own = model_.moe.experts / place_.mesh().expert, first = own * place_[base::Axis::expert];
  p.groups = own;
  p.first_expert = first;
  for (std::int64_t expert = 0; expert < model_.moe.experts; ++expert) {
    const bool here = expert >= first && expert < first + own;
    for (const std::string& part : parts) {
      const std::string name = fmt::format("{}experts.{}.{}.weight", from, expert, part);
      p.sources.push_back({name, here ? p.rows : 0, {0, here ? rows : 0, 0, cols}, rows, cols, false});
      if (here) p.rows += rows;
    }
  }
  return p;
}

/// The experts of Hugging Face's MixtralSparseMoeBlock, or of Qwen3MoeSparseMoeBlock with norms of queries and keys.
UnitSpec Cutter::experts(std::int64_t layer) const {
  const std::string name = fmt::format("layers.{}.", layer), from = experts_name(layer);
  const std::int64_t hidden = model_.hidden, ffn = model_.moe.ffn;
  const bool qwen = model_.qk_norm;
  Unit unit({fmt::format("experts {}", layer), {}, true, false, layer}, name, parameter_order::kExperts);
  unit.add(Parameter::experts_fc1, of_experts(from, {qwen ? "gate_proj" : "w1", qwen ? "up_proj" : "w3"}, ffn, hidden));
  unit.add(Parameter::experts_fc2, of_experts(from, {qwen ? "down_proj" : "w2"}, hidden, ffn));
  return unit.take();
}

/// The parameters of Hugging Face's LlamaDecoderLayer, or of Qwen3DecoderLayer with norms of queries and keys; with
/// experts those of MixtralDecoderLayer and Qwen3MoeDecoderLayer, without the experts.
void Cutter::add_llama_layer(Unit& unit, std::int64_t layer) const {
  const std::string from = layer_name(layer);
  const std::int64_t hidden = model_.hidden, ffn = model_.ffn, q = model_.query_width(), kv = model_.key_width();
  const std::string attention = from + "self_attn.", mlp = from + "mlp.";
  unit.add(Parameter::norm1_weight, ones(from + "input_layernorm.weight"));
  unit.add(Parameter::qkv_weight,
           column_parallel(
               {{attention + "q_proj.weight", q}, {attention + "k_proj.weight", kv}, {attention + "v_proj.weight", kv}},
               hidden));
  if (model_.qk_norm) {
    unit.add(Parameter::q_norm_weight, replicated(attention + "q_norm.weight", model_.head_width(), 0, Initial::ones));
    unit.add(Parameter::k_norm_weight, replicated(attention + "k_norm.weight", model_.head_width(), 0, Initial::ones));
  }
  unit.add(Parameter::proj_weight, row_parallel(attention + "o_proj.weight", hidden, q));
  unit.add(Parameter::norm2_weight, ones(from + "post_attention_layernorm.weight"));
  if (model_.has_experts(layer)) {
    ParameterSpec router = replicated(experts_name(layer) + "gate.weight", model_.moe.experts, hidden, Initial::normal);
    router.gradient_overwritten = true;
    return unit.add(Parameter::router, std::move(router));
  }
  unit.add(Parameter::fc1_weight,
           column_parallel({{mlp + "gate_proj.weight", ffn}, {mlp + "up_proj.weight", ffn}}, hidden));
  unit.add(Parameter::fc2_weight, row_parallel(mlp + "down_proj.weight", hidden, ffn));
}

/// The parameters of Hugging Face's GPT2Block, whose projections are stored (in, out). Projections onto the residual
/// stream start with standard deviation init_std/sqrt(2·layers) (Radford et al. 2019, §2.3).
void Cutter::add_gpt2_layer(Unit& unit, const std::string& from) const {
  const std::int64_t hidden = model_.hidden, ffn = model_.ffn;
  const auto thirds = [&](const std::string& name) {
    std::vector<Part> parts;
    for (std::int64_t i = 0; i < 3; ++i) parts.push_back({from + name, hidden, i * hidden, 3 * hidden});
    return parts;
  };
  const auto residual = [&](ParameterSpec p) {
    p.standard_deviation /= std::sqrt(2.0 * static_cast<double>(model_.layers));
    return p;
  };
  unit.add(Parameter::norm1_weight, ones(from + "ln_1.weight"));
  unit.add(Parameter::norm1_bias, zeros(from + "ln_1.bias"));
  unit.add(Parameter::qkv_weight, column_parallel(thirds("attn.c_attn.weight"), hidden));
  unit.add(Parameter::qkv_bias, column_parallel(thirds("attn.c_attn.bias"), 0));
  unit.add(Parameter::proj_weight, residual(row_parallel(from + "attn.c_proj.weight", hidden, hidden)));
  unit.add(Parameter::proj_bias, zeros(from + "attn.c_proj.bias"));
  unit.add(Parameter::norm2_weight, ones(from + "ln_2.weight"));
  unit.add(Parameter::norm2_bias, zeros(from + "ln_2.bias"));
  unit.add(Parameter::fc1_weight, column_parallel({{from + "mlp.c_fc.weight", ffn}}, hidden));
  unit.add(Parameter::fc1_bias, column_parallel({{from + "mlp.c_fc.bias", ffn}}, 0));
  unit.add(Parameter::fc2_weight, residual(row_parallel(from + "mlp.c_proj.weight", hidden, ffn)));
  unit.add(Parameter::fc2_bias, zeros(from + "mlp.c_proj.bias"));
}

UnitSpec Cutter::embedding() const {
  Unit unit({"embedding", {}, false, true}, "embedding.", embedding_parameters(model_));
  if (!model_.tie_embeddings) unit.add(Parameter::table, vocabulary(table()));
  if (gpt2())
    unit.add(Parameter::positions, replicated("transformer.wpe.weight", model_.seq, model_.hidden, Initial::normal));
  return unit.take();
}

UnitSpec Cutter::layer(std::int64_t layer) const {
  Unit unit({fmt::format("layer {}", layer), {}, true, false, layer}, fmt::format("layers.{}.", layer),
            layer_parameters(model_, model_.has_experts(layer)));
  gpt2() ? add_gpt2_layer(unit, layer_name(layer)) : add_llama_layer(unit, layer);
  return unit.take();
}

UnitSpec Cutter::root() const {
  const std::string norm = gpt2() ? "transformer.ln_f" : "model.norm";
  Unit unit({"root", {}, false, !model_.tie_embeddings}, "", root_parameters(model_.arch));
  unit.add(Parameter::norm_weight, ones(norm + ".weight"));
  if (gpt2()) unit.add(Parameter::norm_bias, zeros(norm + ".bias"));
  ParameterSpec head = vocabulary(model_.tie_embeddings ? table() : "lm_head.weight");
  head.gradient_overwritten = true;
  unit.add(Parameter::head, std::move(head));
  return unit.take();
}

}  // namespace

std::vector<UnitSpec> make_units(const deck::ModelConfig& model, const base::Place& place) {
  const Cutter cutter(model, place);
  std::vector<UnitSpec> units{cutter.embedding()};
  for (std::int64_t layer = 0; layer < model.layers; ++layer) units.push_back(cutter.layer(layer));
  units.push_back(cutter.root());
  for (std::int64_t layer = model.layers - model.expert_layers(); layer < model.layers; ++layer)
    units.push_back(cutter.experts(layer));
  return units;
}

}  // namespace shard8::model
