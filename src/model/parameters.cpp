// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "model/parameters.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "kernels/adamw.hpp"
#include "kernels/elementwise.hpp"
#include "model/weight_file.hpp"
#include "tensor/transfer.hpp"

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

using tensor::Tensor;

namespace {

/// Elements of a transposed tensor that are read at once, before they are written to their places: 4 MiB. Chosen.
constexpr std::int64_t kTransposedPanel = std::int64_t{1} << 20;

/// Reads a box into `out`, where its elements lie as `to` says.
void read_box(const io::TensorFile& file, const std::string& name, const io::StridedBox& to, float* out) {
  const io::Box& box = to.box;
  // If a transposed tensor has one row, the stride of rows, which is not used, may be smaller than a row.
  if (to.col_stride == 1) return file.read_box(name, box, out + to.offset, std::max(to.row_stride, box.cols));
  const std::int64_t rows_at_once = std::clamp(kTransposedPanel / box.cols, std::int64_t{1}, box.rows);
  std::vector<float> panel(static_cast<std::size_t>(rows_at_once * box.cols));
  for (std::int64_t first = 0; first < box.rows; first += rows_at_once) {
    const io::Box rows = io::clip_rows(box, box.row0 + first, rows_at_once);
    file.read_box(name, rows, panel.data(), rows.cols);
    for (std::int64_t c = 0; c < rows.cols; ++c)
      for (std::int64_t r = 0; r < rows.rows; ++r)
        out[to.at(rows.row0 + r, rows.col0 + c)] = panel[static_cast<std::size_t>(r * rows.cols + c)];
  }
}

/// Error(deck) that names the first value of a box that is not finite. `values`: where its elements lie as `stored`
/// says, one of them not finite.
[[noreturn]] void refuse_value(const io::TensorFile& file, const std::string& name, const io::StridedBox& stored,
                               const float* values) {
  const io::Box& box = stored.box;
  std::int64_t row = box.row0, col = box.col0;
  while (std::isfinite(values[stored.at(row, col)]))
    if (++col == box.col0 + box.cols) ++row, col = box.col0;
  const double value = file.stored_value(name, row, col);
  base::fail(base::ExitCode::deck, "{}: tensor '{}' has the value {} in row {}, column {}, which {}", file.spec(), name,
             value, row, col,
             std::isfinite(value)
                 ? "fp32, the type of shard8's weights, does not hold: set model.init_file to weights within fp32"
                 : "no training can begin with; repair the file, or set model.init_file to another one");
}

/// Fills `rows`, (R, C) fp32 rows of a master shard, from the box stored.box of the tensor `name` in the file.
/// Error(deck) if one of the values is not finite: it would never become finite, and FP8 casts saturate it unseen.
void read(const tensor::Exec& exec, const io::TensorFile& file, const std::string& name, const io::StridedBox& stored,
          const Tensor& rows) {
  tensor::write_on_host(exec, rows, [&](const Tensor& host) {
    const auto* values = host.as<float>();
    read_box(file, name, stored, host.as<float>());
    const auto* end = values + host.count();
    if (!std::all_of(values, end, [](float value) { return std::isfinite(value); }))
      refuse_value(file, name, stored, values);
  });
}

/// The global indices of the elements of a shard's rows: their row-major indices in the file's tensor.
kernels::GlobalIndex global_index(const SourceBox& source, const io::Box& stored) {
  const std::int64_t cols = source.stored_cols();
  const std::int64_t offset = stored.row0 * cols + stored.col0;
  if (source.stored_transposed) return {offset, 1, cols};
  return {offset, cols, 1};
}

}  // namespace

void initialise(const tensor::Exec& exec, const fsdp::UnitBuffers& buffers, const std::vector<UnitSpec>& units,
                std::uint64_t seed, const io::TensorFile* file) {
  for (std::size_t u = 0; u < units.size(); ++u) {
    for (std::size_t p = 0; p < units[u].parameters.size(); ++p) {
      const ParameterSpec& spec = units[u].parameters[p];
      const fsdp::WeightForms& weight = buffers.weights(static_cast<int>(u))[p];
      const bool split = buffers.options().master_remainder;
      // A master in two halves is split from fp32 values. The fp32 values are written to the gradient shards, which are
      // not used yet.
      const Tensor& master = split ? weight.gradient : weight.master;
      kernels::fill_zero(exec, master);
      for (const SourceBox& source : spec.sources) {
        const std::string name = file == nullptr ? source.name : name_in(*file, source, spec.vector);
        const ShardPart part = shard_part(source, weight.first_row(), weight.owned_rows());
        if (part.rows == 0) continue;
        const Tensor rows = master.slice(part.row, part.rows);
        if (file != nullptr)
          read(exec, *file, name, part.stored, rows);
        else if (spec.initial == Initial::normal)
          kernels::normal_fill(exec, rows, kernels::random_key(seed, name.c_str()),
                               global_index(source, part.stored.box), spec.standard_deviation);
        else if (spec.initial == Initial::ones)
          kernels::fill_one(exec, rows);
      }
      if (split) kernels::split_master(exec, weight.master, weight.remainder, master);
    }
  }
}

}  // namespace shard8::model
