// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "model/dims.hpp"
#include "model/parameters.hpp"

// Names and shapes of Hugging Face's LlamaForCausalLM and GPT2LMHeadModel, and how each tensor rank's parameters are
// cut from them.

namespace shard8::model {

namespace {

/// Rows of a column-parallel parameter that come from rows [first, first + out) of the tensor `name`.
struct Part {
  std::string name;
  std::int64_t out = 0;  ///< rows of this part, over all tensor ranks
  std::int64_t first = 0;
  std::int64_t global_out = 0;  ///< rows of the tensor `name`
};

/// Cuts the parameters of Hugging Face tensors for one tensor rank.
class Cutter {
 public:
  Cutter(const deck::ModelConfig& model, const base::Place& place)
      : model_(model), tensor_(place.mesh().ranks(kCut)), rank_(place.rank(kCut)) {}

  UnitSpec embedding() const;
  UnitSpec layer(std::int64_t layer) const;
  UnitSpec root() const;

 private:
  /// The axes along which parameters are cut.
  static constexpr base::AxisSet kCut = base::AxisSet::tensor;
  static ParameterSpec cut() {
    ParameterSpec p;
    p.sharing.cut = kCut;
    return p;
  }
  /// A weight (out, in) of several parts, one below the other, each cut on its rows.
  ParameterSpec column_parallel(const std::vector<Part>& parts, std::int64_t in) const;
  ParameterSpec column_parallel_bias(const std::vector<Part>& parts) const;
  /// A weight (out, in) cut on its columns.
  ParameterSpec row_parallel(const std::string& source, std::int64_t out, std::int64_t in) const;
  /// A table (vocab, hidden) cut on its rows; the last ranks have padding rows.
  ParameterSpec vocabulary(const std::string& source) const;
  /// A parameter (hidden), or (rows, hidden), that every tensor rank holds whole.
  ParameterSpec replicated_vector(const std::string& source, Initial initial) const;
  ParameterSpec replicated_matrix(const std::string& source, std::int64_t rows) const;

  bool gpt2() const { return model_.arch == deck::Arch::gpt2; }
  std::string table() const { return gpt2() ? "transformer.wte.weight" : "model.embed_tokens.weight"; }
  ParameterSpec llama_parameter(Slot slot, const std::string& from) const;
  ParameterSpec gpt2_parameter(Slot slot, const std::string& from) const;
  ParameterSpec root_parameter(Slot slot) const;

  const deck::ModelConfig& model_;
  int tensor_, rank_;
};

ParameterSpec Cutter::column_parallel(const std::vector<Part>& parts, std::int64_t in) const {
  ParameterSpec p = cut();
  p.cols = in;
  p.gradient_overwritten = true;
  p.standard_deviation = model_.init_std;
  for (const Part& part : parts) {
    const std::int64_t rows = part.out / tensor_;
    p.sources.push_back({part.name, p.rows, {part.first + rank_ * rows, rows, 0, in}, part.global_out, in, gpt2()});
    p.rows += rows;
  }
  return p;
}

ParameterSpec Cutter::column_parallel_bias(const std::vector<Part>& parts) const {
  ParameterSpec p = cut();
  p.vector = true;
  p.initial = Initial::zeros;
  for (const Part& part : parts) {
    const std::int64_t rows = part.out / tensor_;
    p.sources.push_back({part.name, p.rows, {part.first + rank_ * rows, rows, 0, 1}, part.global_out, 1, false});
    p.rows += rows;
  }
  return p;
}

ParameterSpec Cutter::row_parallel(const std::string& source, std::int64_t out, std::int64_t in) const {
  ParameterSpec p = cut();
  p.rows = out;
  p.cols = in / tensor_;
  p.gradient_overwritten = true;
  p.standard_deviation = model_.init_std;
  p.sources.push_back({source, 0, {0, out, rank_ * p.cols, p.cols}, out, in, gpt2()});
  return p;
}

ParameterSpec Cutter::vocabulary(const std::string& source) const {
  const VocabRange range = vocab_range(model_.vocab, tensor_, rank_);
  ParameterSpec p = cut();
  p.rows = (model_.vocab + tensor_ - 1) / tensor_;
  p.cols = model_.hidden;
  p.standard_deviation = model_.init_std;
  p.sources.push_back({source, 0, {range.first, range.valid, 0, model_.hidden}, model_.vocab, model_.hidden, false});
  return p;
}

ParameterSpec Cutter::replicated_vector(const std::string& source, Initial initial) const {
  ParameterSpec p;
  p.rows = model_.hidden;
  p.vector = true;
  p.initial = initial;
  p.sources.push_back({source, 0, {0, model_.hidden, 0, 1}, model_.hidden, 1, false});
  return p;
}

ParameterSpec Cutter::replicated_matrix(const std::string& source, std::int64_t rows) const {
  ParameterSpec p;
  p.rows = rows;
  p.cols = model_.hidden;
  p.standard_deviation = model_.init_std;
  p.sources.push_back({source, 0, {0, rows, 0, model_.hidden}, rows, model_.hidden, false});
  return p;
}

std::string name_of(Slot slot) {
  switch (slot) {
    case Slot::table:
      return "table";
    case Slot::positions:
      return "positions";
    case Slot::norm1_weight:
      return "norm1.weight";
    case Slot::norm1_bias:
      return "norm1.bias";
    case Slot::qkv_weight:
      return "qkv.weight";
    case Slot::qkv_bias:
      return "qkv.bias";
    case Slot::proj_weight:
      return "proj.weight";
    case Slot::proj_bias:
      return "proj.bias";
    case Slot::norm2_weight:
      return "norm2.weight";
    case Slot::norm2_bias:
      return "norm2.bias";
    case Slot::fc1_weight:
      return "fc1.weight";
    case Slot::fc1_bias:
      return "fc1.bias";
    case Slot::fc2_weight:
      return "fc2.weight";
    case Slot::fc2_bias:
      return "fc2.bias";
    case Slot::norm_weight:
      return "norm.weight";
    case Slot::norm_bias:
      return "norm.bias";
    case Slot::head:
      return "head.weight";
  }
  return "?";
}

std::optional<fp8::Linear> linear_of(Slot slot) {
  switch (slot) {
    case Slot::qkv_weight:
      return fp8::Linear::qkv;
    case Slot::proj_weight:
      return fp8::Linear::proj;
    case Slot::fc1_weight:
      return fp8::Linear::fc1;
    case Slot::fc2_weight:
      return fp8::Linear::fc2;
    default:
      return std::nullopt;
  }
}

[[noreturn]] void no_such_parameter(const std::string& unit, Slot slot) {
  base::fail(base::ExitCode::failed, "{} has no parameter '{}'", unit, name_of(slot));
}

/// A parameter of Hugging Face's LlamaDecoderLayer.
ParameterSpec Cutter::llama_parameter(Slot slot, const std::string& from) const {
  const std::int64_t hidden = model_.hidden, ffn = model_.ffn;
  const std::int64_t kv = model_.kv_heads * (hidden / model_.heads);
  switch (slot) {
    case Slot::norm1_weight:
      return replicated_vector(from + "input_layernorm.weight", Initial::ones);
    case Slot::qkv_weight:
      return column_parallel({{from + "self_attn.q_proj.weight", hidden, 0, hidden},
                              {from + "self_attn.k_proj.weight", kv, 0, kv},
                              {from + "self_attn.v_proj.weight", kv, 0, kv}},
                             hidden);
    case Slot::proj_weight:
      return row_parallel(from + "self_attn.o_proj.weight", hidden, hidden);
    case Slot::norm2_weight:
      return replicated_vector(from + "post_attention_layernorm.weight", Initial::ones);
    case Slot::fc1_weight:
      return column_parallel({{from + "mlp.gate_proj.weight", ffn, 0, ffn}, {from + "mlp.up_proj.weight", ffn, 0, ffn}},
                             hidden);
    case Slot::fc2_weight:
      return row_parallel(from + "mlp.down_proj.weight", hidden, ffn);
    default:
      no_such_parameter("a llama layer", slot);
  }
}

/// A parameter of Hugging Face's GPT2Block, whose projections are stored (in, out). Projections onto the residual
/// stream start with standard deviation init_std/sqrt(2·layers) (Radford et al. 2019, §2.3).
ParameterSpec Cutter::gpt2_parameter(Slot slot, const std::string& from) const {
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
  switch (slot) {
    case Slot::norm1_weight:
      return replicated_vector(from + "ln_1.weight", Initial::ones);
    case Slot::norm1_bias:
      return replicated_vector(from + "ln_1.bias", Initial::zeros);
    case Slot::qkv_weight:
      return column_parallel(thirds("attn.c_attn.weight"), hidden);
    case Slot::qkv_bias:
      return column_parallel_bias(thirds("attn.c_attn.bias"));
    case Slot::proj_weight:
      return residual(row_parallel(from + "attn.c_proj.weight", hidden, hidden));
    case Slot::proj_bias:
      return replicated_vector(from + "attn.c_proj.bias", Initial::zeros);
    case Slot::norm2_weight:
      return replicated_vector(from + "ln_2.weight", Initial::ones);
    case Slot::norm2_bias:
      return replicated_vector(from + "ln_2.bias", Initial::zeros);
    case Slot::fc1_weight:
      return column_parallel({{from + "mlp.c_fc.weight", ffn, 0, ffn}}, hidden);
    case Slot::fc1_bias:
      return column_parallel_bias({{from + "mlp.c_fc.bias", ffn, 0, ffn}});
    case Slot::fc2_weight:
      return residual(row_parallel(from + "mlp.c_proj.weight", hidden, ffn));
    case Slot::fc2_bias:
      return replicated_vector(from + "mlp.c_proj.bias", Initial::zeros);
    default:
      no_such_parameter("a gpt2 layer", slot);
  }
}

ParameterSpec Cutter::root_parameter(Slot slot) const {
  const std::string norm = gpt2() ? "transformer.ln_f" : "model.norm";
  switch (slot) {
    case Slot::norm_weight:
      return replicated_vector(norm + ".weight", Initial::ones);
    case Slot::norm_bias:
      return replicated_vector(norm + ".bias", Initial::zeros);
    case Slot::head: {
      ParameterSpec head = vocabulary(model_.tie_embeddings ? table() : "lm_head.weight");
      head.gradient_overwritten = true;
      return head;
    }
    default:
      no_such_parameter("the root", slot);
  }
}

void add(UnitSpec& unit, const std::string& prefix, Slot slot, ParameterSpec parameter) {
  parameter.name = prefix + name_of(slot);
  parameter.linear = linear_of(slot);
  unit.parameters.push_back(std::move(parameter));
}

UnitSpec Cutter::embedding() const {
  UnitSpec unit{"embedding", {}, false, true};
  for (const Slot slot : embedding_slots(model_))
    add(unit, "embedding.", slot,
        slot == Slot::table ? vocabulary(table()) : replicated_matrix("transformer.wpe.weight", model_.seq));
  return unit;
}

UnitSpec Cutter::layer(std::int64_t layer) const {
  const std::string from = fmt::format("{}.{}.", gpt2() ? "transformer.h" : "model.layers", layer);
  UnitSpec unit{fmt::format("layer {}", layer), {}, true, false, layer};
  for (const Slot slot : layer_slots(model_.arch))
    add(unit, fmt::format("layers.{}.", layer), slot,
        gpt2() ? gpt2_parameter(slot, from) : llama_parameter(slot, from));
  return unit;
}

UnitSpec Cutter::root() const {
  UnitSpec unit{"root", {}, false, !model_.tie_embeddings};
  for (const Slot slot : root_slots(model_.arch)) add(unit, "", slot, root_parameter(slot));
  return unit;
}

}  // namespace

std::vector<UnitSpec> make_units(const deck::ModelConfig& model, const base::Place& place) {
  const Cutter cutter(model, place);
  std::vector<UnitSpec> units{cutter.embedding()};
  for (std::int64_t layer = 0; layer < model.layers; ++layer) units.push_back(cutter.layer(layer));
  units.push_back(cutter.root());
  return units;
}

}  // namespace shard8::model
