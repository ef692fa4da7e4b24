// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <map>
#include <utility>

#include "comm/mpi/group.hpp"
#include "train/plan/plan.hpp"
#include "train/record.hpp"
#include "train/state.hpp"

namespace shard8::train {

using comm::Communicator;
using operation::Collective;

namespace {

/// The memory in which a host's communicators receive what they sum. It is found with pools of the same class as the
/// communicators have.
class Pools {
 public:
  /// Takes the memory of a collective. Without an index the collective is waited for at once, and its memory is given
  /// back; otherwise it is held until an operation waits for the collective with this index.
  void issue(const Collective& c, std::optional<int> index = {}) {
    const std::size_t bytes = scratch_bytes(c);
    if (bytes == 0 || (c.by_parts && !c.ring)) return;
    auto block = pools_.try_emplace(c.group, comm::ScratchPool::measure()).first->second.take(bytes);
    if (index) under_way_.emplace(*index, std::move(block));
  }
  void step(const Setup& setup, const StepOfRun& kind) {
    int index = 0;
    record_step(setup, kind, [&](const operation::Operation& operation) {
      for (const int waited : operation.waits) under_way_.erase(waited);
      if (const auto* c = operation.collective(); c != nullptr && !c->host_values)
        issue(*c, operation.stream == operation::Stream::compute ? std::nullopt : std::optional(index));
      ++index;
    });
    under_way_.clear();  // gathers for the next step, which receive in place and hold no memory
  }
  std::size_t bytes() const {
    std::size_t all = 0;
    for (const auto& [group, pool] : pools_) all += pool.bytes();
    return all;
  }

 private:
  static std::size_t scratch_bytes(const Collective& c) {
    const auto bytes = static_cast<std::size_t>(c.bytes());
    if (c.op == profile::Collective::reduce_scatter && c.ring)
      return Communicator::ring_scratch_bytes(bytes, c.ranks, c.parts.front().dtype);
    if (c.op == profile::Collective::reduce_scatter)
      return Communicator::reduce_scatter_scratch_bytes(bytes, c.ranks, c.items);
    if (c.op == profile::Collective::all_reduce) return Communicator::all_reduce_scratch_bytes(bytes, c.ranks, c.items);
    return 0;
  }
  std::map<operation::Group, comm::ScratchPool> pools_;
  std::map<int, comm::ScratchPool::Block> under_way_;
};

/// Bytes of the communicators' memory in a run on hosts.
std::size_t reduction_buffers(Setup setup) {
  // The second micro-batch and all later ones but the last have the same collectives: two micro-batches are enough.
  setup.layout.micro_batches = std::min<std::int64_t>(setup.layout.micro_batches, 2);
  Pools pools;
  if (const fp8::Recipe& recipe = setup.weights.recipe; recipe.per_tensor()) {  // the initial weights' amaxes
    Collective amaxes{profile::Collective::all_reduce, operation::Group::model,
                      setup.mesh.ranks(operation::Group::model)};
    amaxes.parts.push_back(
        {tensor::DType::i32, static_cast<std::uint64_t>(recipe.layers) * fp8::kLinears * sizeof(std::int32_t)});
    pools.issue(amaxes);
  }
  pools.step(setup, {.first = true});
  std::size_t before = 0;
  while (std::exchange(before, pools.bytes()) != pools.bytes()) pools.step(setup, {});  // they only grow
  return pools.bytes();
}

}  // namespace

Plan make_plan(const deck::Config& config, int threads) {
  const Setup setup = Setup::make(config, 0, threads);
  State state(setup, tensor::ArenaSet::measure());
  Plan plan;
  plan.device = setup.dims.device;
  plan.memory = state.arenas.bytes();
  for (const auto& layer : state.activations.layers) {
    const auto kept = model::TransformerLayer::kept_bytes(layer, config.model.recompute);
    plan.kept.linear_inputs += kept.linear_inputs;
    plan.kept.attention_results += kept.attention_results;
  }
  plan.traffic = traffic(setup);
  plan.reduction_buffers = setup.dims.device ? reduce_memory_bytes(setup, state.units) : reduction_buffers(setup);
  plan.user_buffers = user_buffers(setup).bytes();
  if (!config.checkpoint.dir.empty()) plan.checkpoint = checkpoint_bytes(setup, state);
  plan.parameters = model::parameter_count(config.model);
  plan.tokens_per_step = config.data.batch * config.model.seq;
  plan.flops_per_step = model_flops_per_token(config.model) * static_cast<double>(plan.tokens_per_step);
  return plan;
}

}  // namespace shard8::train
