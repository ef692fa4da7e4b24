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
    fsdp::UnitShape& shape = shapes.emplace_back(fsdp::UnitShape{unit.name, {}, unit.rotating, unit.single_use});
    for (const ParameterSpec& p : unit.parameters) {
      auto& parameter = shape.parameters.emplace_back();
      parameter.name = p.name;
      parameter.rows = p.rows;
      parameter.cols = p.cols;
      parameter.gradient_overwritten = p.gradient_overwritten;
      parameter.vector = p.vector;
      parameter.sharing = p.sharing;
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
  for (const UnitSpec& unit : make_units(one))
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
