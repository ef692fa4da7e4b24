// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/writer.hpp"
#include "comm/device.hpp"
#include "comm/mpi/group.hpp"
#include "deck/device.hpp"
#include "train/plan/plan.hpp"
#include "train/setup.hpp"
#include "train/skeleton_memory.hpp"
#include "train/state.hpp"

namespace shard8::train {

using comm::Communicator;
using operation::Collective;

namespace {

/// The memory in which a host's communicators receive what they sum. The memory is found with pools of the same class
/// as the communicators have.
class Pools {
 public:
  /// `by_messages`: exchanges by parts are messages, because hosts carry a device's step.
  explicit Pools(bool by_messages) : by_messages_(by_messages) {}

  /// Takes the memory of a collective. Without an index the collective is waited for at once, and its memory is given
  /// back; otherwise it is held until an operation waits for the collective with this index.
  void issue(const Collective& c, std::optional<int> index = {}) {
    const std::size_t bytes = scratch_bytes(c);
    if (bytes == 0 || (c.by_parts && !c.ring && !by_messages_)) return;
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
      return Communicator::ring_scratch_bytes(bytes, c.ranks, c.payloads.front().dtype);
    if (c.op == profile::Collective::reduce_scatter && c.by_parts)
      return bytes / static_cast<std::size_t>(c.ranks) * static_cast<std::size_t>(c.ranks - 1);
    if (c.op == profile::Collective::reduce_scatter)
      return Communicator::reduce_scatter_scratch_bytes(bytes, c.ranks, c.items);
    if (c.op == profile::Collective::all_reduce) return Communicator::all_reduce_scratch_bytes(bytes, c.ranks, c.items);
    return 0;
  }
  bool by_messages_;
  std::map<operation::Group, comm::ScratchPool> pools_;
  std::map<int, comm::ScratchPool::Block> under_way_;
};

/// Bytes of the communicators' memory in a run on hosts.
std::size_t reduction_buffers(Setup setup, const State& state) {
  // The second micro-batch and all later ones but the last have the same collectives: two micro-batches are enough.
  setup.layout.micro_batches = std::min<std::int64_t>(setup.layout.micro_batches, 2);
  Pools pools(setup.dims.device);
  if (setup.weights.recipe.per_tensor()) {  // the initial weights' amaxes
    Collective amaxes{profile::Collective::all_reduce, operation::Group::model,
                      setup.mesh.ranks(operation::Group::model)};
    amaxes.payloads.push_back(
        {tensor::DType::i32, static_cast<std::uint64_t>(state.scaling.weight_amaxes().count()) * sizeof(std::int32_t)});
    pools.issue(amaxes);
  }
  pools.step(setup, {.first = true});
  std::size_t before = 0;
  while (std::exchange(before, pools.bytes()) != pools.bytes()) pools.step(setup, {});  // pools only grow
  return pools.bytes();
}

/// Counts an operation that is a collective. A few numbers of the host that MPI moves do not count.
void add(const operation::Operation& operation, Traffic& traffic) {
  const auto* c = operation.collective();
  if (c == nullptr || c->host_values) return;
  for (const auto& part : c->payloads)
    ++traffic[{c->op, std::string(name_of(c->group)), c->ranks, std::string(tensor::name_of(part.dtype)), part.bytes}];
}

/// The communicators that NCCL makes on a device if all ranks are on one node. There NCCL carries only these: on the
/// compute stream, sums of a few numbers and the experts' numbers of rows; gradients' sums over replicas, if all_reduce
/// has no memory of its own for so many. Everything else goes through peers' memory. Groups of the same ranks share a
/// communicator of the compute stream.
class NcclCommunicators {
 public:
  explicit NcclCommunicators(const base::Place& place) : place_(place) {}
  void add(const operation::Operation& operation) {
    const auto* c = operation.collective();
    if (c == nullptr || c->host_values || c->ranks == 1) return;
    const bool sums = c->op == profile::Collective::all_reduce;
    if (operation.stream == operation::Stream::reduce && sums &&
        Communicator::all_reduce_memory_bytes(static_cast<std::size_t>(c->bytes()), c->ranks) == 0)
      large_.insert(c->group);
    const bool counts = c->op == profile::Collective::all_gather && c->payloads.front().dtype == tensor::DType::i32;
    if (operation.stream != operation::Stream::compute || !(sums || counts)) return;
    std::vector<int> ranks(static_cast<std::size_t>(c->ranks));
    for (int r = 0; r < c->ranks; ++r) ranks[static_cast<std::size_t>(r)] = place_.peer(c->group, r);
    small_.insert(std::move(ranks));
  }
  std::size_t bytes() const { return comm::nccl_memory_bytes(small_.size(), large_.size()); }

 private:
  base::Place place_;
  std::set<std::vector<int>> small_;  ///< by their ranks
  std::set<operation::Group> large_;
};

}  // namespace

Plan::Checkpoint checkpoint_bytes(const Setup& setup, State& state) {
  const auto tensors = state_tensors(setup, state);
  Plan::Checkpoint bytes;
  bytes.copies = checkpoint::Snapshot::bytes(tensors, setup.place);
  for (const checkpoint::StateTensor& t : tensors) {
    bytes.state += tensor::bytes_of(t.dtype, t.shape.count());
    if (!t.counts(setup.place)) continue;
    for (const checkpoint::LocalPart& part : t.parts) bytes.rank_file += part.local.bytes();
  }
  return bytes;
}

Traffic traffic(const Setup& setup) {
  Traffic traffic;
  record_step(setup, {}, [&](const operation::Operation& operation) { add(operation, traffic); });
  return traffic;
}

namespace {

/// FLOPs of the products of attention, over the causal half of the square. Forward has two products. Backward has four,
/// and a fifth one, which recomputes the scores and is not counted.
std::uint64_t attention_flops(const operation::Attention& a) {
  const auto of = [](std::int64_t n) { return static_cast<std::uint64_t>(n); };
  const auto product = of(a.shape.batch) * of(a.shape.heads) * of(a.shape.seq) * of(a.shape.seq) * of(a.shape.head_dim);
  return (a.backward ? 4 : 2) * product;
}

}  // namespace

std::uint64_t model_flops(const operation::Operation& operation) {
  if (operation.recomputed) return 0;
  if (const auto* p = operation.product())
    return 2 * static_cast<std::uint64_t>(p->rows) * static_cast<std::uint64_t>(p->cols) *
           static_cast<std::uint64_t>(p->inner);
  if (const auto* a = operation.attention()) return attention_flops(*a);
  return 0;
}

double model_flops_per_token(const deck::ModelConfig& model) {
  deck::Config one_sequence;
  one_sequence.model = model;
  one_sequence.data.batch = one_sequence.data.micro_batch = 1;
  one_sequence.fsdp.gather = deck::Gather::bf16;
  const auto flops_with = [&](std::int64_t dense, std::int64_t with_experts) {
    one_sequence.model.layers = dense + with_experts;
    one_sequence.model.moe.dense_layers = dense;
    std::uint64_t flops = 0;
    record_step(Setup::make(one_sequence, 0, 1), {.first = true, .last = true},
                [&](const operation::Operation& operation) { flops += model_flops(operation); });
    return flops;
  };
  // All layers of a kind are alike. `one` has a layer of each kind that there is.
  const std::int64_t with_experts = model.expert_layers(), dense = model.layers - with_experts;
  const std::int64_t one_dense = dense > 0 ? 1 : 0, one_with_experts = with_experts > 0 ? 1 : 0;
  const std::uint64_t one = flops_with(one_dense, one_with_experts);
  std::uint64_t flops = one;
  if (dense > 1) flops += static_cast<std::uint64_t>(dense - 1) * (flops_with(2, one_with_experts) - one);
  if (with_experts > 1) flops += static_cast<std::uint64_t>(with_experts - 1) * (flops_with(one_dense, 2) - one);
  return static_cast<double>(flops / static_cast<std::uint64_t>(model.seq));
}

Plan make_plan(const deck::Config& config, int threads) {
  const Setup setup = Setup::make(config, 0, threads);
  const bool by_hosts = deck::carried_by_hosts(config.run), skeleton = config.run.skeleton != deck::Skeleton::none;
  State state(setup, tensor::ArenaSet::measure());
  Plan plan;
  plan.device = setup.dims.device && !by_hosts;
  plan.moved_only = by_hosts;
  plan.memory = by_hosts ? MovedMemory(setup).bytes() : state.arenas.bytes();
  for (const auto& layer : state.activations.layers) {
    if (by_hosts) break;
    const auto kept = model::LayerMemory::kept_bytes(layer, config.model.recompute);
    plan.kept.linear_inputs += kept.linear_inputs;
    plan.kept.attention_results += kept.attention_results;
  }
  NcclCommunicators nccl(setup.place);
  record_step(setup, {}, [&](const operation::Operation& operation) {
    add(operation, plan.traffic);
    nccl.add(operation);
  });
  plan.reduction_buffers = plan.device
                               ? reduce_memory_bytes(setup, state.units) + all_reduce_memory_bytes(setup, state.units)
                               : reduction_buffers(setup, state);
  plan.user_buffers = user_buffers(setup).bytes();
  if (plan.device) plan.nccl = nccl.bytes();
  if (!skeleton && !config.checkpoint.dir.empty()) plan.checkpoint = checkpoint_bytes(setup, state);
  if (const model::ExpertDims& experts = setup.dims.experts; experts.on()) {
    const std::int64_t tokens = setup.dims.tokens_local();
    plan.experts = {experts.mean_rows(tokens), experts.most_rows(tokens), experts.round_rows(tokens),
                    experts.most_rounds(tokens)};
  }
  plan.parameters = model::parameter_count(config.model);
  plan.tokens_per_step = config.data.batch * config.model.seq;
  plan.flops_per_step = model_flops_per_token(config.model) * static_cast<double>(plan.tokens_per_step);
  return plan;
}

}  // namespace shard8::train
