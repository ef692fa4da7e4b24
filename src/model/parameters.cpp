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
  UnitSpec& embedding = units.emplace_back(UnitSpec{"embedding", {}, false, true});
  if (!model.tie_embeddings)
    embedding.parameters.push_back(build.vocabulary("embedding.table", names.table, model.vocab, model.hidden));
  if (gpt2)
    embedding.parameters.push_back(
        build.replicated_matrix("embedding.positions", names.positions, model.seq, model.hidden));
  for (std::int64_t layer = 0; layer < model.layers; ++layer)
    units.push_back(gpt2 ? gpt2_layer(model, build, layer) : llama_layer(model, build, layer));
  UnitSpec& root = units.emplace_back(UnitSpec{"root", {}, false, !model.tie_embeddings});
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

WeightFormat WeightFormat::make(const deck::Config& config) {
  WeightFormat format;
  format.recipe = fp8::Recipe::make(config);
  format.primary_fp8 = format.recipe.on() && config.fp8.weights == deck::Fp8Weights::fp8;
  format.gather_fp8 = format.recipe.on() && config.fsdp.gather == deck::Gather::fp8;
  return format;
}

fp8::Site WeightFormat::site(const UnitSpec& unit, const ParameterSpec& parameter) const {
  if (!parameter.linear) return {};
  return recipe.site(unit.layer, *parameter.linear).with(fp8::Role::weight);
}

namespace {

/// A weight (rows, cols) under a scaling: its values, and the inverse scales of its blocks.
std::vector<fsdp::Piece> pieces_of(tensor::DType dtype, tensor::Scaling scaling, std::int64_t cols) {
  std::vector<fsdp::Piece> pieces{{dtype, 1, cols}};
  if (scaling != tensor::Scaling::tensor)
    pieces.push_back({tensor::scale_dtype(scaling), tensor::block_rows(scaling), cols / tensor::block_cols(scaling)});
  return pieces;
}

void make_fp8(fsdp::ParameterShape& shape, const WeightFormat& format) {
  const fp8::Recipe& recipe = format.recipe;
  constexpr auto kRole = fp8::Role::weight;
  fsdp::Copies copies{pieces_of(recipe.dtype(kRole), recipe.by_rows(kRole), shape.cols), {}};
  if (recipe.two_copies(kRole)) copies.backward = pieces_of(recipe.dtype(kRole), recipe.by_columns(kRole), shape.cols);
  shape.granularity = recipe.granularity();
  (format.gather_fp8 ? shape.travel : shape.compute) = std::move(copies);
  shape.stored = format.primary_fp8;
}

}  // namespace

std::vector<fsdp::UnitShape> unit_shapes(const std::vector<UnitSpec>& units, const WeightFormat& format) {
  std::vector<fsdp::UnitShape> shapes;
  for (const UnitSpec& unit : units) {
    fsdp::UnitShape& shape = shapes.emplace_back(fsdp::UnitShape{unit.name, {}, unit.rotating, unit.brief});
    for (const ParameterSpec& p : unit.parameters) {
      auto& parameter = shape.parameters.emplace_back();
      parameter.name = p.name;
      parameter.rows = p.rows;
      parameter.cols = p.cols;
      parameter.gradient_overwritten = p.gradient_overwritten;
      parameter.vector = p.vector;
      if (format.site(unit, p).on()) make_fp8(parameter, format);
    }
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
    for (const ParameterSpec& p : unit.parameters) sum += (unit.layer >= 0 ? model.layers : 1) * count(p);
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
