// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "train/state.hpp"

#include <algorithm>
#include <utility>

#include "comm/communicator.hpp"
#include "model/head_chunks.hpp"
#include "tensor/alignment.hpp"
#include "train/workspace.hpp"

namespace shard8::train {

using profile::Exchange;

namespace {

/// For each unit, memory in which its gradient shards may lie: a layer's kept activations, which are not read after the
/// layer's backward. Empty for the embedding.
std::vector<tensor::Tensor> lent_to_units(const model::Activations& activations) {
  std::vector<tensor::Tensor> lent(activations.layers.size() + 1);
  for (std::size_t layer = 0; layer < activations.layers.size(); ++layer)
    lent[static_cast<std::size_t>(model::layer_unit(static_cast<std::int64_t>(layer)))] = activations.kept[layer];
  return lent;
}

}  // namespace

State::State(const Setup& setup, tensor::ArenaSet set) : State(setup, std::move(set), workspace_bytes(setup)) {}

State::State(const Setup& setup, tensor::ArenaSet set, std::size_t workspace)
    : arenas(std::move(set)),
      activations(model::Activations::allocate(setup.dims, setup.config.model.layers, setup.config.model.recompute,
                                               setup.weights.recipe, workspace, arenas)),
      scaling(setup.weights.recipe, arenas[tensor::MemoryKind::weights]),
      units(model::unit_shapes(setup.units, setup.weights, &scaling), setup.fsdp, arenas, lent_to_units(activations)),
      optimizer(setup.config.optimizer, units, arenas, setup.dims.device),
      squares(arenas[tensor::MemoryKind::buffers].allocate({static_cast<std::int64_t>(sizeof(double))},
                                                           tensor::DType::u8)) {}

std::size_t reduce_memory_bytes(const Setup& setup, const fsdp::UnitBuffers& buffers) {
  constexpr std::size_t kEnough =
      std::size_t{256} << 20;  // chosen: with so much, each round of a reduction takes far longer than its start
  std::size_t most = 0;
  for (int unit = 0; unit < static_cast<int>(buffers.units().size()); ++unit) {
    std::size_t bytes = 0;
    for (const fsdp::WeightForms& weight : buffers.weights(unit)) {
      const std::size_t own = tensor::bytes_of(setup.fsdp.reduce, weight.gradient.count());
      bytes += comm::Communicator::reduce_memory_bytes(own, buffers.shard_ranks(unit));
    }
    most = std::max(most, bytes);
  }
  return std::min(most, kEnough);
}

std::size_t UserBuffers::bytes() const {
  if (gather + scatter == 0) return reduce;
  return reduce + comm::Communicator::parts_memory_bytes(gather, scatter, ranks);
}

UserBuffers user_buffers(const Setup& setup) {
  const model::Dims& d = setup.dims;
  const std::int64_t own = d.tokens_local() * d.hidden;
  UserBuffers buffers;
  buffers.ranks = d.tensor;
  if (!d.overlap.any()) return buffers;
  if (d.device) {
    constexpr std::size_t kEnough = std::size_t{256} << 20;  // as for gradients
    buffers.reduce = comm::Communicator::reduce_memory_bytes(bytes_of(d.compute, own), d.tensor);
    if (!d.overlap.by_parts()) buffers.reduce = std::min(buffers.reduce, kEnough);  // parts need room for all
    return buffers;
  }
  if (d.overlap.of(Exchange::head_fprop).shares_memory())
    buffers.gather = tensor::aligned(bytes_of(d.compute, model::HeadChunks::make(d).gathered_first() * d.hidden));
  if (d.overlap.of(Exchange::qkv_fprop).shares_memory() || d.overlap.of(Exchange::fc1_fprop).shares_memory()) {
    const fp8::Recipe& recipe = setup.weights.recipe;
    if (recipe.layers < setup.config.model.layers)
      buffers.gather = std::max(buffers.gather, tensor::aligned(bytes_of(d.compute, own)));
    if (recipe.on()) {
      const auto scaling = recipe.by_rows(fp8::Role::input);
      const auto scales = static_cast<std::size_t>(tensor::scale_bytes(scaling, own));
      buffers.gather = std::max(
          buffers.gather, tensor::aligned(bytes_of(recipe.dtype(fp8::Role::input), own)) + tensor::aligned(scales));
    }
  }
  if (d.overlap.of(Exchange::proj_fprop).shares_memory() || d.overlap.of(Exchange::fc2_fprop).shares_memory())
    buffers.scatter = bytes_of(d.compute, d.tokens() * d.hidden);
  return buffers;
}

tensor::MemoryBytes state_bytes(const Setup& setup) { return State(setup, tensor::ArenaSet::measure()).arenas.bytes(); }

}  // namespace shard8::train
