// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "train/traffic.hpp"

#include <algorithm>
#include <string>

#include "fsdp/weight_store.hpp"
#include "model/transformer.hpp"
#include "model/workspace.hpp"

namespace shard8::train {

using deck::Recompute;
using profile::Collective;
using profile::CollectiveKey;
using tensor::DType;
using tensor::Tensor;

namespace {

std::uint64_t bytes_of(const std::vector<Tensor>& tensors, DType dtype) {
  std::uint64_t bytes = 0;
  for (const Tensor& t : tensors) bytes += static_cast<std::uint64_t>(t.count()) * tensor::size_of(dtype);
  return bytes;
}

/// Adds calls in one group; a group of one does not communicate.
struct Counter {
  Traffic& traffic;
  std::string group;
  int size;
  void add(Collective op, DType dtype, std::uint64_t bytes, std::uint64_t calls = 1) const {
    if (size > 1 && calls > 0)
      traffic[CollectiveKey{op, group, size, std::string(tensor::name_of(dtype)), bytes}] += calls;
  }
};

}  // namespace

Traffic unit_traffic(const Setup& setup, const fsdp::UnitBuffers& buffers) {
  Traffic traffic;
  const Counter shard{traffic, "shard", setup.fsdp.shards};
  const Counter replicate{traffic, "replicate", setup.fsdp.replicas};
  auto schedule = fsdp::make_schedule(buffers);
  const auto order = model::visits(setup.config.model, setup.layout.micro_batches);
  schedule.begin_step(order);
  // A tied root stays in use from its first visit to the end of forward.
  const int root = model::root_unit(setup.config.model.layers);
  const int last_layer = model::layer_unit(setup.config.model.layers - 1);
  int previous = -1;
  for (const int unit : order) {
    for (const auto& start : schedule.acquire(unit))
      shard.add(Collective::all_gather, setup.fsdp.gather,
                bytes_of(buffers.gather_slots()[static_cast<std::size_t>(start.slot)].travel, setup.fsdp.gather));
    const bool tied_root = unit == root && setup.config.model.tie_embeddings;
    if (!tied_root) schedule.release(unit);
    if (unit == last_layer && previous != last_layer && schedule.in_use(root)) schedule.release(root);
    previous = unit;
  }
  for (int u = 0; u < static_cast<int>(buffers.units().size()); ++u) {
    if (buffers.master(u).empty()) continue;
    const std::uint64_t own = bytes_of(buffers.gradient(u), setup.fsdp.reduce);
    shard.add(Collective::reduce_scatter, setup.fsdp.reduce, own * static_cast<std::uint64_t>(setup.fsdp.shards));
    replicate.add(Collective::all_reduce, setup.fsdp.reduce, own);
  }
  return traffic;
}

Traffic tensor_traffic(const Setup& setup, const fsdp::UnitBuffers& buffers) {
  Traffic traffic;
  const Counter group{traffic, "tensor", setup.mesh.tensor};
  const model::Dims& d = setup.dims;
  const auto layers = static_cast<std::uint64_t>(setup.config.model.layers);
  const auto micro_batches = static_cast<std::uint64_t>(setup.layout.micro_batches);
  const auto hidden = static_cast<std::uint64_t>(d.tokens() * d.hidden) * tensor::size_of(d.compute);
  // Counted by hand from the model's modules, and held to a run's own count by the test train.step.
  // A layer's forward gathers twice and scatters twice; its backward gathers the output gradients
  // and the saved inputs of both blocks and scatters two input gradients.
  const bool full = setup.config.model.recompute == Recompute::full;
  const std::uint64_t gathers = layers * (full ? 8 : 6) + 1 + 1;   // + head's input, + embedding's gradient
  const std::uint64_t scatters = layers * (full ? 5 : 4) + 1 + 1;  // + embedding, + head's input gradient
  group.add(Collective::all_gather, d.compute, hidden, micro_batches * gathers);
  group.add(Collective::reduce_scatter, d.compute, hidden, micro_batches * scatters);
  const std::int64_t chunk = model::head_chunk_tokens(d);
  for (std::int64_t first = 0; first < d.tokens(); first += chunk) {
    const auto row = static_cast<std::uint64_t>(std::min(chunk, d.tokens() - first)) * sizeof(float);
    group.add(Collective::all_reduce, DType::fp32, row, micro_batches);      // maxima
    group.add(Collective::all_reduce, DType::fp32, 2 * row, micro_batches);  // sums
  }
  std::uint64_t shared = 0;
  for (std::size_t u = 0; u < setup.units.size(); ++u)
    for (std::size_t p = 0; p < setup.units[u].parameters.size(); ++p)
      if (!setup.units[u].parameters[p].tensor_sharded) shared += buffers.gradient(static_cast<int>(u))[p].bytes();
  group.add(Collective::all_reduce, DType::fp32, shared);
  return traffic;
}

Traffic traffic(const Setup& setup, const State& state) {
  Traffic all = unit_traffic(setup, state.units);
  for (const auto& [key, calls] : tensor_traffic(setup, state.units)) all[key] += calls;
  return all;
}

}  // namespace shard8::train
