// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "model/parameters.hpp"

#include "model/parameter_builder.hpp"

namespace shard8::model {

namespace {

/// Names outside the layers.
struct Names {
  std::string table, positions, norm, head;
};

Names names_of(deck::Arch arch) {
  if (arch == deck::Arch::gpt2)
    return {"transformer.wte.weight", "transformer.wpe.weight", "transformer.ln_f", "lm_head.weight"};
  return {"model.embed_tokens.weight", "", "model.norm", "lm_head.weight"};
}

}  // namespace

std::vector<UnitSpec> make_units(const deck::ModelConfig& model, int tensor, int tensor_rank) {
  const bool gpt2 = model.arch == deck::Arch::gpt2;
  const Names names = names_of(model.arch);
  ParameterBuilder build;
  build.tensor = tensor;
  build.rank = tensor_rank;
  build.standard_deviation = model.init_std;

  std::vector<UnitSpec> units;
  UnitSpec& embedding = units.emplace_back(UnitSpec{"embedding", {}, false});
  if (!model.tie_embeddings)
    embedding.parameters.push_back(build.vocabulary("embedding.table", names.table, model.vocab, model.hidden));
  if (gpt2)
    embedding.parameters.push_back(
        build.replicated_matrix("embedding.positions", names.positions, model.seq, model.hidden));
  for (std::int64_t layer = 0; layer < model.layers; ++layer)
    units.push_back(gpt2 ? gpt2_layer(model, build, layer) : llama_layer(model, build, layer));
  UnitSpec& root = units.emplace_back(UnitSpec{"root", {}, false});
  root.parameters.push_back(
      build.replicated_vector("norm.weight", names.norm + ".weight", model.hidden, Initial::ones));
  if (gpt2)
    root.parameters.push_back(build.replicated_vector("norm.bias", names.norm + ".bias", model.hidden, Initial::zeros));
  ParameterSpec head =
      build.vocabulary("head.weight", model.tie_embeddings ? names.table : names.head, model.vocab, model.hidden);
  head.gradient_overwritten = true;
  root.parameters.push_back(std::move(head));
  return units;
}

std::vector<fsdp::UnitShape> unit_shapes(const std::vector<UnitSpec>& units) {
  std::vector<fsdp::UnitShape> shapes;
  for (const UnitSpec& unit : units) {
    fsdp::UnitShape& shape = shapes.emplace_back(fsdp::UnitShape{unit.name, {}, unit.rotating});
    for (const ParameterSpec& p : unit.parameters)
      shape.parameters.push_back({p.name, p.rows, p.cols, 1, p.gradient_overwritten, p.vector});
  }
  return shapes;
}

namespace {

template <class Count>
std::int64_t sum_over_parameters(const deck::ModelConfig& model, Count count) {
  deck::ModelConfig one = model;
  one.layers = 1;
  std::int64_t sum = 0;
  for (const UnitSpec& unit : make_units(one, 1, 0))
    for (const ParameterSpec& p : unit.parameters) sum += (unit.rotating ? model.layers : 1) * count(p);
  return sum;
}

}  // namespace

std::int64_t parameter_count(const deck::ModelConfig& model) {
  return sum_over_parameters(model, [](const ParameterSpec& p) { return p.rows * p.cols; });
}

std::int64_t matmul_parameter_count(const deck::ModelConfig& model) {
  return sum_over_parameters(model,
                             [](const ParameterSpec& p) { return p.gradient_overwritten ? p.rows * p.cols : 0; });
}

}  // namespace shard8::model
