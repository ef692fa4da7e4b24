// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "train/plan.hpp"

#include <algorithm>

#include "fsdp/gradient_store.hpp"
#include "train/flops.hpp"

namespace shard8::train {

using comm::Communicator;
using profile::Collective;
using tensor::Tensor;

namespace {

/// The largest of neighbours in the order of reduction together: so many are under way at a time.
std::size_t shard_reductions(const Setup& setup, const fsdp::UnitBuffers& buffers) {
  if (setup.fsdp.shards == 1) return 0;
  std::vector<std::size_t> each;
  for (int u = 0; u < static_cast<int>(buffers.units().size()); ++u) {
    std::size_t bytes = 0;
    for (const Tensor& t : buffers.gradient(u))
      bytes += static_cast<std::size_t>(t.count() * setup.fsdp.shards) * tensor::size_of(setup.fsdp.reduce);
    const int items = static_cast<int>(buffers.gradient(u).size());
    each.push_back(items == 0 ? 0 : Communicator::reduce_scatter_scratch_bytes(bytes, setup.fsdp.shards, items));
  }
  std::size_t most = 0;
  for (std::size_t u = 0; u < each.size(); ++u) {
    const std::size_t last = std::min(each.size(), u + fsdp::kReductionsInFlight);
    std::size_t together = 0;
    for (std::size_t v = u; v < last; ++v) together += each[v];
    most = std::max(most, together);
  }
  return most;
}

std::size_t other_reductions(const Setup& setup, const Traffic& traffic) {
  std::size_t tensor_most = 0, replicate_most = 0;
  for (const auto& [key, calls] : traffic) {
    const std::size_t bytes = key.op == Collective::all_reduce
                                  ? Communicator::all_reduce_scratch_bytes(key.bytes, key.group_size)
                                  : Communicator::reduce_scatter_scratch_bytes(key.bytes, key.group_size);
    if (key.op == Collective::all_gather) continue;
    if (key.group == "tensor") tensor_most = std::max(tensor_most, bytes);
    if (key.group == "replicate") replicate_most = std::max(replicate_most, bytes);
  }
  return tensor_most + replicate_most * (setup.fsdp.replicas > 1 ? fsdp::kReductionsInFlight : 0);
}

}  // namespace

Plan make_plan(const deck::Config& config, int threads) {
  const Setup setup = Setup::make(config, {}, threads);
  const State state(setup, tensor::ArenaSet::measure());
  Plan plan;
  plan.memory = state.arenas.bytes();
  plan.traffic = traffic(setup, state);
  plan.reduction_buffers = shard_reductions(setup, state.units) + other_reductions(setup, plan.traffic);
  plan.parameters = model::parameter_count(config.model);
  plan.tokens_per_step = config.data.batch * config.model.seq;
  plan.flops_per_step = model_flops_per_token(config.model) * static_cast<double>(plan.tokens_per_step);
  return plan;
}

}  // namespace shard8::train
