// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "train/plan.hpp"

#include <algorithm>
#include <deque>
#include <optional>

#include "comm/scratch.hpp"
#include "fsdp/gradient_store.hpp"
#include "model/transformer.hpp"
#include "train/flops.hpp"

namespace shard8::train {

using comm::Communicator;
using profile::Collective;
using tensor::Tensor;

namespace {

/// What a group comes to hold for reductions that need so much each, in this order, step after step,
/// with at most `under_way` at a time: found with the very pool that a group has.
std::size_t pool_bytes(const std::vector<std::size_t>& needs, std::size_t under_way) {
  auto pool = comm::ScratchPool::measure();
  std::deque<comm::ScratchPool::Block> taken;
  std::optional<std::size_t> before;
  while (before != pool.bytes()) {  // the blocks of a pool only grow
    before = pool.bytes();
    for (const std::size_t bytes : needs) {
      if (taken.size() == under_way) taken.pop_front();
      taken.push_back(pool.take(bytes));
    }
    taken.clear();
  }
  return pool.bytes();
}

std::size_t unit_reductions(const Setup& setup, const fsdp::UnitBuffers& buffers) {
  const int shards = setup.fsdp.shards, replicas = setup.fsdp.replicas;
  std::vector<std::size_t> scatters, sums;
  for (const int unit : model::reductions(setup.config.model)) {
    const auto& gradient = buffers.gradient(unit);
    const int items = static_cast<int>(gradient.size());
    std::size_t own = 0;
    for (const Tensor& t : gradient) own += static_cast<std::size_t>(t.count()) * tensor::size_of(setup.fsdp.reduce);
    scatters.push_back(
        Communicator::reduce_scatter_scratch_bytes(own * static_cast<std::size_t>(shards), shards, items));
    sums.push_back(Communicator::all_reduce_scratch_bytes(own, replicas, items));
  }
  // Sums over replicas in bf16 are waited for before the next scatter ends.
  const bool one_sum = shards > 1 && setup.fsdp.reduce != tensor::DType::fp32;
  return pool_bytes(scatters, fsdp::kReductionsInFlight) + pool_bytes(sums, one_sum ? 1 : fsdp::kReductionsInFlight);
}

/// Reductions of scaling state: of weights in the group that owns them once (delayed scaling: before
/// the first step), of everything in the world.
std::size_t scaling_reductions(const Setup& setup) {
  const fp8::Recipe& recipe = setup.weights.recipe;
  if (!recipe.per_tensor()) return 0;
  const auto weights = static_cast<std::size_t>(recipe.layers) * fp8::kLinears * sizeof(std::int32_t);
  std::size_t bytes = Communicator::all_reduce_scratch_bytes(weights, setup.mesh.shard * setup.mesh.tensor);
  if (recipe.delayed()) bytes += Communicator::all_reduce_scratch_bytes(fp8::kRoles * weights, setup.mesh.ranks());
  return bytes;
}

/// The tensor group reduces one thing at a time.
std::size_t tensor_reductions(const Setup& setup, const fsdp::UnitBuffers& buffers) {
  std::size_t most = 0;
  for (const auto& [key, calls] : tensor_traffic(setup, buffers)) {
    if (key.op == Collective::reduce_scatter)
      most = std::max(most, Communicator::reduce_scatter_scratch_bytes(key.bytes, key.group_size));
    if (key.op == Collective::all_reduce)
      most = std::max(most, Communicator::all_reduce_scratch_bytes(key.bytes, key.group_size));
  }
  std::size_t shared = 0;
  int items = 0;
  for (std::size_t u = 0; u < setup.units.size(); ++u) {
    for (std::size_t p = 0; p < setup.units[u].parameters.size(); ++p) {
      if (setup.units[u].parameters[p].tensor_sharded) continue;
      shared += buffers.gradient(static_cast<int>(u))[p].bytes();
      ++items;
    }
  }
  return std::max(most, Communicator::all_reduce_scratch_bytes(shared, setup.mesh.tensor, items));
}

}  // namespace

Plan make_plan(const deck::Config& config, int threads) {
  const Setup setup = Setup::make(config, {}, threads);
  const State state(setup, tensor::ArenaSet::measure());
  Plan plan;
  plan.memory = state.arenas.bytes();
  for (const auto& layer : state.activations.layers) {
    const auto kept = model::TransformerLayer::kept_bytes(layer, config.model.recompute);
    plan.kept.linear_inputs += kept.linear_inputs;
    plan.kept.beside_cast += kept.beside_cast;
  }
  plan.traffic = traffic(setup, state);
  plan.reduction_buffers = tensor::kDevice ? reduce_memory_bytes(setup, state.units)
                                           : unit_reductions(setup, state.units) +
                                                 tensor_reductions(setup, state.units) + scaling_reductions(setup);
  plan.parameters = model::parameter_count(config.model);
  plan.tokens_per_step = config.data.batch * config.model.seq;
  plan.flops_per_step = model_flops_per_token(config.model) * static_cast<double>(plan.tokens_per_step);
  return plan;
}

}  // namespace shard8::train
