// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "train/state.hpp"

#include <algorithm>
#include <utility>

namespace shard8::train {

using checkpoint::Content;
using checkpoint::StateTensor;
using tensor::Tensor;

namespace {

/// A tensor of this rank's shard. Each of its items stands for row_block × col_block elements of the parameter.
struct ShardTensor {
  Content content;
  Tensor shard;
  std::int64_t row_block = 1, col_block = 1;
};

/// Adds the persistent tensors of one parameter to a list.
class Lister {
 public:
  Lister(std::vector<StateTensor>& list, const model::ParameterSpec& spec, const fsdp::WeightForms& weight)
      : list_(list), spec_(spec), first_(weight.first_row()), rows_(weight.owned_rows()) {}

  /// Adds a tensor that is cut over the ranks as the parameter is: one entry for each Hugging Face name among the
  /// parameter's sources.
  void add(const ShardTensor& t) {
    const std::size_t begin = list_.size();
    for (const model::SourceBox& source : spec_.sources) {
      StateTensor& whole = tensor_of(begin, source, t);
      const model::ShardPart part = model::shard_part(source, first_, rows_, t.row_block, t.col_block);
      if (part.stored.box.empty()) continue;
      whole.parts.push_back({part.stored.box, source.stored_transposed, t.shard.slice(part.row, part.rows)});
    }
  }

  /// Adds numbers that every rank holds: one of the parameter, or one of each expert of the layer. Each stands under
  /// the names of its sources.
  void add_scalars(Content content, const Tensor& scalars) {
    std::string before;
    const std::size_t of_each = spec_.sources.size() / static_cast<std::size_t>(scalars.count());
    for (std::size_t s = 0; s < spec_.sources.size(); ++s) {
      const model::SourceBox& source = spec_.sources[s];
      if (source.name == before) continue;
      before = source.name;
      const Tensor scalar = scalars.slice(static_cast<std::int64_t>(s / of_each), 1);
      StateTensor& t = list_.emplace_back();
      t.name = source.name;
      t.content = content;
      t.dtype = scalar.dtype;
      t.shape = {1};
      t.parts.push_back({{0, 1, 0, 1}, false, scalar});
    }
  }

 private:
  /// The entry with the source's name among those from `begin` on; a new one if the last entry has another name.
  /// Sources with the same name (q, k and v of GPT-2) follow one another.
  StateTensor& tensor_of(std::size_t begin, const model::SourceBox& source, const ShardTensor& t) {
    if (list_.size() > begin && list_.back().name == source.name) return list_.back();
    StateTensor& whole = list_.emplace_back();
    whole.name = source.name;
    whole.content = t.content;
    whole.dtype = t.shard.dtype;
    io::Box shape = io::in_blocks({0, source.global_rows, 0, source.global_cols}, t.row_block, t.col_block);
    if (source.stored_transposed) shape = io::transposed(shape);
    whole.shape = spec_.vector ? tensor::Shape{shape.rows} : tensor::Shape{shape.rows, shape.cols};
    whole.sharded = spec_.sharing.divided();
    return whole;
  }

  std::vector<StateTensor>& list_;
  const model::ParameterSpec& spec_;
  std::int64_t first_, rows_;
};

/// Adds one copy of a weight kept in FP8: its bytes, and its inverse scales, which are `scalars` or one for each block.
void add_stored(Lister& list, const tensor::Operand& copy, const Tensor& scalars, Content data, Content scale_inv) {
  list.add({data, copy.data});
  if (copy.scaling == tensor::Scaling::tensor)
    list.add_scalars(scale_inv, scalars);
  else
    list.add({scale_inv, copy.scale_inv, tensor::block_rows(copy.scaling), tensor::block_cols(copy.scaling)});
}

void add_parameter(Lister& list, const State& state, const fp8::Site& site, int unit, std::size_t parameter) {
  const fsdp::WeightForms& weight = state.units.weights(unit)[parameter];
  list.add({Content::master, weight.master});
  if (state.units.options().master_remainder) list.add({Content::master_remainder, weight.remainder});
  list.add({Content::exp_avg, state.optimizer.first_moment(unit)[parameter]});
  list.add({Content::exp_avg_sq, state.optimizer.second_moment(unit)[parameter]});
  if (weight.stored.empty()) return;
  const bool of_experts = site.expert >= 0 && state.scaling.recipe().per_tensor();
  const Tensor scalars = of_experts ? state.scaling.expert_scale_invs(site) : weight.scale_inv;
  add_stored(list, weight.stored.forward, scalars, Content::fp8_rowwise, Content::fp8_rowwise_scale_inv);
  if (weight.stored.two())
    add_stored(list, weight.stored.backward, scalars, Content::fp8_columnwise, Content::fp8_columnwise_scale_inv);
}

/// A tensor (rows, cols) that every rank holds.
StateTensor scaling_tensor(Content content, const Tensor& t, std::int64_t rows) {
  const std::int64_t cols = t.count() / rows;
  StateTensor whole;
  whole.name = "scaling_state";
  whole.content = content;
  whole.dtype = t.dtype;
  whole.shape = cols == 1 ? tensor::Shape{rows} : tensor::Shape{rows, cols};
  whole.parts.push_back({{0, rows, 0, cols}, false, t.reshaped(whole.shape)});
  return whole;
}

void add_scaling(std::vector<StateTensor>& list, fp8::ScalingState& scaling) {
  if (!scaling.recipe().per_tensor()) return;
  const auto rows_of = [&](const Tensor& t) {
    const bool experts = scaling.recipe().experts > 0;  // roles have rows of different lengths
    return experts ? t.count() : t.count() / (scaling.recipe().layers * fp8::kLinears);
  };
  const Tensor scales = scaling.kept_scales();
  list.push_back(scaling_tensor(Content::fp8_scale, scales, rows_of(scales)));
  if (!scaling.recipe().delayed()) return;
  const Tensor& history = scaling.history();
  list.push_back(scaling_tensor(Content::fp8_amax_history, history, rows_of(history)));
  list.push_back(scaling_tensor(Content::fp8_history_entries, scaling.history_entries(), fp8::kRoles));
  list.back().in_host_memory = true;
}

}  // namespace

int scaling_group(const Setup& setup) { return static_cast<int>(setup.units.size()); }

std::vector<StateTensor> state_tensors(const Setup& setup, State& state) {
  std::vector<StateTensor> list;
  for (std::size_t u = 0; u < setup.units.size(); ++u) {
    for (std::size_t p = 0; p < setup.units[u].parameters.size(); ++p) {
      const int unit = static_cast<int>(u);
      const model::ParameterSpec& spec = setup.units[u].parameters[p];
      Lister lister(list, spec, state.units.weights(unit)[p]);
      const std::size_t begin = list.size();
      add_parameter(lister, state, setup.weights.site(setup.units[u], spec), unit, p);
      for (std::size_t i = begin; i < list.size(); ++i) list[i].group = unit;
    }
  }
  const std::size_t begin = list.size();
  add_scaling(list, state.scaling);
  for (std::size_t i = begin; i < list.size(); ++i) list[i].group = scaling_group(setup);
  return list;
}

}  // namespace shard8::train
