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
  /// A call that moves several tensors counts once for each dtype.
  void add(Collective op, const std::vector<Tensor>& tensors, std::uint64_t calls = 1) const {
    std::map<DType, std::uint64_t> bytes;
    for (const Tensor& t : tensors) bytes[t.dtype] += t.bytes();
    for (const auto& [dtype, sum] : bytes) add(op, dtype, sum, calls);
  }
};

}  // namespace

Traffic unit_traffic(const Setup& setup, const fsdp::UnitBuffers& buffers) {
  Traffic traffic;
  const Counter shard{traffic, "shard", setup.fsdp.shards};
  const Counter replicate{traffic, "replicate", setup.fsdp.replicas};
  auto schedule = fsdp::make_schedule(buffers);
  const fsdp::GatherBuffers& gather = buffers.gather();
  const auto order =
      gather.copies_of(model::visits(setup.config.model, setup.weights.recipe, setup.layout.micro_batches));
  schedule.begin_step(order);
  // A tied root stays in use from its first visit to the end of forward.
  const int root = gather.copy_of(model::root_unit(setup.config.model.layers), fsdp::Pass::forward);
  const int last_layer = model::layer_unit(setup.config.model.layers - 1);
  int previous = -1;
  for (const int copy : order) {
    const int unit = gather.unit_of(copy);
    for (const auto& start : schedule.acquire(copy))
      shard.add(Collective::all_gather, gather.travelling(start.copy));
    const bool tied_root = copy == root && setup.config.model.tie_embeddings;
    if (!tied_root) schedule.release(copy);
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

namespace {

// Counted by hand from the model's modules, and held to a run's own count by the test train.traffic.
// A layer's forward gathers the inputs of qkv and fc1 and scatters the results of proj and fc2; its
// backward gathers those inputs again and the output gradients of proj and fc2, and scatters the
// input gradients of qkv and fc1. Recompute::full repeats all of forward but fc2.

void plain_layers(const Counter& group, const Setup& setup, std::uint64_t layers, std::uint64_t hidden) {
  const bool full = setup.config.model.recompute == Recompute::full;
  const DType compute = setup.dims.compute;
  group.add(Collective::all_gather, compute, hidden, layers * (full ? 8 : 6));
  group.add(Collective::reduce_scatter, compute, hidden, layers * (full ? 5 : 4));
}

/// As plain_layers, but gathers are of bytes and of the scales of blocks, a copy at a time.
void fp8_layers(const Counter& group, const Setup& setup, std::uint64_t layers, std::uint64_t hidden) {
  using fp8::Role;
  const fp8::Recipe& recipe = setup.weights.recipe;
  const Recompute recompute = setup.config.model.recompute;
  const std::int64_t elements = setup.dims.tokens() * setup.dims.hidden;
  const auto gathers = [&](Role role, tensor::Scaling scaling, std::uint64_t calls) {
    group.add(Collective::all_gather, recipe.dtype(role), static_cast<std::uint64_t>(elements), calls);
    if (!recipe.per_tensor())
      group.add(Collective::all_gather, tensor::scale_dtype(scaling),
                static_cast<std::uint64_t>(fp8::scale_bytes(scaling, elements)), calls);
  };
  const std::uint64_t again = recompute == Recompute::full ? 2 : 0;
  gathers(Role::input, recipe.by_rows(Role::input), layers * (2 + again));
  gathers(Role::input, recipe.by_columns(Role::input), layers * 2);
  gathers(Role::output_gradient, recipe.by_rows(Role::output_gradient), layers * 2);
  if (recipe.two_copies(Role::output_gradient))
    gathers(Role::output_gradient, recipe.by_columns(Role::output_gradient), layers * 2);
  group.add(Collective::reduce_scatter, setup.dims.compute, hidden, layers * (again > 0 ? 5 : 4));
  // One amax for each cast of a gathered matrix. Delayed scaling has none after its first step.
  if (recipe.kind == deck::Recipe::current)
    group.add(Collective::all_reduce, DType::i32, 4, layers * (recompute == Recompute::full ? 6 : 4));
}

}  // namespace

Traffic tensor_traffic(const Setup& setup, const fsdp::UnitBuffers& buffers) {
  Traffic traffic;
  const Counter group{traffic, "tensor", setup.mesh.tensor};
  const model::Dims& d = setup.dims;
  const auto in_fp8 = static_cast<std::uint64_t>(setup.weights.recipe.layers);
  const auto plain = static_cast<std::uint64_t>(setup.config.model.layers) - in_fp8;
  const auto micro_batches = static_cast<std::uint64_t>(setup.layout.micro_batches);
  const auto hidden = static_cast<std::uint64_t>(d.tokens() * d.hidden) * tensor::size_of(d.compute);
  plain_layers(group, setup, micro_batches * plain, hidden);
  if (in_fp8 > 0) fp8_layers(group, setup, micro_batches * in_fp8, hidden);
  group.add(Collective::all_gather, d.compute, hidden, 2 * micro_batches);      // head's input, embedding's gradient
  group.add(Collective::reduce_scatter, d.compute, hidden, 2 * micro_batches);  // embedding, head's input gradient
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

Traffic scaling_traffic(const Setup& setup) {
  Traffic traffic;
  const fp8::Recipe& recipe = setup.weights.recipe;
  const auto weights = static_cast<std::uint64_t>(recipe.layers) * fp8::kLinears * sizeof(std::int32_t);
  if (recipe.delayed())
    Counter{traffic, "world", setup.mesh.ranks()}.add(Collective::all_reduce, DType::i32, weights * fp8::kRoles);
  if (recipe.kind == deck::Recipe::current)
    Counter{traffic, "model", setup.mesh.shard * setup.mesh.tensor}.add(Collective::all_reduce, DType::i32, weights);
  return traffic;
}

Traffic traffic(const Setup& setup, const State& state) {
  Traffic all = unit_traffic(setup, state.units);
  for (const auto& part : {tensor_traffic(setup, state.units), scaling_traffic(setup)})
    for (const auto& [key, calls] : part) all[key] += calls;
  return all;
}

}  // namespace shard8::train
