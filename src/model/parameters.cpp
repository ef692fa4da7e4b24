// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "model/parameters.hpp"

namespace shard8::model {

ShardPart shard_part(const SourceBox& source, std::int64_t first, std::int64_t count, std::int64_t row_block,
                     std::int64_t col_block) {
  const io::Box rows = io::clip_rows({source.local_row, source.box.rows, 0, 1}, first, count);
  const io::Box whole{source.box.row0 + rows.row0 - source.local_row, rows.rows, source.box.col0, source.box.cols};
  const io::Box box = io::in_blocks(whole, row_block, col_block);
  ShardPart part;
  part.row = box.rows == 0 ? 0 : (rows.row0 - first) / row_block;
  part.rows = box.rows;
  part.stored = {box, 0, box.cols, 1};
  if (source.stored_transposed) part.stored = io::transposed(part.stored);
  return part;
}

WeightFormat WeightFormat::make(const deck::Config& config) {
  WeightFormat format;
  format.recipe = fp8::Recipe::make(config);
  if (!format.recipe.on()) return format;
  if (config.fsdp.gather == deck::Gather::fp8) format.cast = fsdp::Cast::before_gather;
  if (config.fp8.weights == deck::Fp8Weights::fp8) format.cast = fsdp::Cast::stored;
  return format;
}

fp8::Site WeightFormat::site(const UnitSpec& unit, const ParameterSpec& parameter) const {
  if (!parameter.linear) return {};
  const fp8::Site site = recipe.site(unit.layer, *parameter.linear).with(fp8::Role::weight);
  return parameter.of_experts ? site.of_expert(parameter.first_expert) : site;
}

std::vector<fsdp::UnitShape> unit_shapes(const std::vector<UnitSpec>& units, const WeightFormat& format,
                                         const fp8::ScalingState* scaling) {
  constexpr auto kRole = fp8::Role::weight;
  const fp8::Recipe& recipe = format.recipe;
  const tensor::DType dtype = recipe.dtype(kRole);
  std::vector<fsdp::UnitShape> shapes;
  for (const UnitSpec& unit : units) {
    fsdp::UnitShape& shape =
        shapes.emplace_back(fsdp::UnitShape{unit.name, {}, unit.rotating, unit.single_use, unit.backward_reads_both});
    for (const ParameterSpec& p : unit.parameters) {
      fsdp::ParameterShape& parameter = shape.parameters.emplace_back(p);
      const fp8::Site site = format.site(unit, p);
      if (!site.on() || !recipe.per_tensor()) parameter.groups = 1;  // whoever casts it need not know its matrices
      if (!site.on()) continue;
      parameter.granularity = recipe.granularity();
      parameter.formats = fsdp::Formats{{dtype, recipe.rowwise(kRole)}, {dtype, recipe.columnwise(kRole)}};
      parameter.cast = format.cast;
      if (!recipe.per_tensor() || scaling == nullptr) continue;
      parameter.scale_inv = p.of_experts ? scaling->expert_scale_invs(site).slice(p.first_expert, p.groups)
                                         : scaling->weight_scale_inv(site);
    }
  }
  return shapes;
}

namespace {

/// The sum of count(parameter) over all parameters. One layer of each kind stands for all of its kind.
template <class Count>
std::int64_t sum_over_parameters(const deck::ModelConfig& model, Count count) {
  const std::int64_t with_experts = model.expert_layers(), dense = model.layers - with_experts;
  deck::ModelConfig few = model;
  few.moe.dense_layers = dense > 0 ? 1 : 0;
  few.layers = few.moe.dense_layers + (with_experts > 0 ? 1 : 0);
  std::int64_t sum = 0;
  for (const UnitSpec& unit : make_units(few)) {
    const std::int64_t units = unit.layer < 0 ? 1 : few.has_experts(unit.layer) ? with_experts : dense;
    for (const ParameterSpec& p : unit.parameters) sum += units * count(p);
  }
  return sum;
}

}  // namespace

std::int64_t parameter_count(const deck::ModelConfig& model) {
  return sum_over_parameters(model, [](const ParameterSpec& p) { return p.rows * p.cols; });
}

std::int64_t matmul_parameter_count(const deck::ModelConfig& model) {
  return sum_over_parameters(model, [&](const ParameterSpec& p) -> std::int64_t {
    if (p.of_experts) return p.rows * p.cols / model.moe.experts * model.moe.experts_per_token;
    return p.gradient_overwritten ? p.rows * p.cols : 0;
  });
}

}  // namespace shard8::model
