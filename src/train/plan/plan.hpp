// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "deck/config.hpp"
#include "fsdp/unit_buffers.hpp"
#include "model/activations.hpp"
#include "operation/operation.hpp"
#include "profile/collective_log.hpp"
#include "tensor/arena.hpp"
#include "tensor/runtime.hpp"
#include "train/setup.hpp"
#include "train/state.hpp"

namespace shard8::train {

/// The number of calls in a step, for each kind of collective that a rank takes part in. profile::CollectiveLog counts
/// the same traffic in a run.
using Traffic = std::map<profile::CollectiveKey, std::uint64_t>;

/// The traffic of the rank at setup.place in a step that is neither the first nor the last, from the step's operations.
Traffic traffic(const Setup& setup);

/// Model FLOPs of an operation: 2·M·N·K for a matrix product; for attention those of its products over the causal half,
/// two in forward and four in backward; 0 for everything else and for what is recomputed.
std::uint64_t model_flops(const operation::Operation& operation);
/// Model FLOPs of one token, forward and backward, from the operations of one sequence: 6·(parameters in matrix
/// products) + 6·layers·hidden·seq.
double model_flops_per_token(const deck::ModelConfig& model);

/// What a run of a deck needs. The code that lays out the memory of a run gives the memory. The operations of a step
/// (record_step()) give the traffic, and model_flops_per_token() gives the FLOPs.
struct Plan {
  bool device = false;                   ///< memory of devices, not of hosts
  bool moved_only = false;               ///< of a skeleton on hosts: `memory` is what collectives move (MovedMemory)
  tensor::MemoryBytes memory{};          ///< bytes of the arenas of rank 0, by kind; no rank needs more
  model::LayerMemory::KeptBytes kept{};  ///< part of the activations, summed over the layers
  /// Bytes of the communicators' buffers that receive what is to be summed: on hosts scratch of MPI reductions, on a
  /// device Communicator::reduce_memory, which a run takes only if its ranks can write to each other's memory, and
  /// all_reduce_memory.
  std::size_t reduction_buffers = 0;
  std::size_t user_buffers = 0;  ///< bytes of UserBuffers on a rank
  std::size_t nccl = 0;          ///< bytes of a device that NCCL takes if all ranks are on one node; hosts: 0
  /// The sizes of a checkpoint, for a run that may write checkpoints (deck::CheckpointConfig::dir); else 0.
  struct Checkpoint {
    /// Host memory of rank 0 for copies of the state; no rank needs more. On a device it is pinned. On hosts it is
    /// taken as far as the state changes before it is written.
    std::size_t copies = 0;
    std::uint64_t state = 0;      ///< bytes of all persistent tensors, each once
    std::uint64_t rank_file = 0;  ///< bytes of `state` in the file of rank 0; no rank writes more
  } checkpoint;
  Traffic traffic;  ///< of rank 0; all_to_all of mean rows
  /// Rows, pairs of a token and one of its experts, that a rank receives in a layer and micro-batch; 0 without experts.
  struct Experts {
    std::int64_t mean_rows = 0, most_rows = 0;
    std::int64_t round_rows = 0;   ///< rows that a round of dispatch brings at most
    std::int64_t most_rounds = 0;  ///< rounds that most_rows take
  } experts;
  double flops_per_step = 0;         ///< of the whole job
  std::int64_t parameters = 0;       ///< of the whole model
  std::int64_t tokens_per_step = 0;  ///< of the global batch

  /// Bytes of the memory in which a rank computes.
  std::size_t total_bytes() const {
    return tensor::total(memory) + reduction_buffers + user_buffers + (device ? 0 : checkpoint.copies);
  }
  /// What a rank needs of its device or of its node's memory: total_bytes(), and what NCCL takes in addition.
  std::size_t needed_bytes() const { return total_bytes() + nccl; }
};

/// Bytes of a checkpoint of this setup. `state` may be laid out in measuring arenas.
Plan::Checkpoint checkpoint_bytes(const Setup& setup, State& state);

/// Makes the plan of a config from deck::load, in one process. Making a plan takes no arena's memory and communicates
/// nothing. `threads`, the threads of a rank, size the kernels' workspace.
Plan make_plan(const deck::Config& config, int threads);

/// The table that `shard8 plan` prints.
std::string to_text(const Plan& plan, const deck::Config& config);

/// The bytes that a rank sends in a step, as nccl-tests counts them for its bus bandwidth.
struct SentBytes {
  double shard = 0, tensor = 0, other = 0;  ///< other: replicas, and the whole mesh
  double all() const { return shard + tensor + other; }
};
SentBytes sent_bytes(const Traffic& traffic);

/// The plan of one mesh.
struct SweepRow {
  base::Extents mesh;
  std::uint64_t memory = 0;  ///< Plan::total_bytes()
  SentBytes sent{};
  double flops_per_rank = 0;  ///< of a step
  std::int64_t padding = 0;   ///< sequences that ranks compute in a step beyond those of the batch
};

struct Sweep {
  std::int64_t ranks = 0;
  std::vector<SweepRow> rows{};      ///< the row with the fewest sent bytes first
  std::int64_t refused = 0;          ///< meshes that do not go with the deck
  std::string why{};                 ///< the first refusal, as the deck's errors say it; empty: none
  std::int64_t too_large = 0;        ///< meshes that need more memory than `most`
  std::uint64_t most = 0;            ///< bytes that a rank may need; 0: no limit
  std::uint64_t least_left_out = 0;  ///< the smallest need of memory among the meshes of `too_large`; 0: there are none
};

/// The meshes of `ranks` ranks, by replicate, then tensor, then expert, with those of the degrees `experts` that divide
/// shard x tensor. Without degrees Extents::expert is 1.
std::vector<base::Extents> meshes_of(std::int64_t ranks, std::span<const std::int64_t> experts);

/// Plans every mesh of meshes_of(). `load` makes the config of a mesh, and throws base::Error(deck) if it does not go
/// with the deck. Meshes that need more than `most` bytes a rank are counted and left out; 0: none is.
Sweep sweep_meshes(std::int64_t ranks, std::span<const std::int64_t> experts, std::uint64_t most, int threads,
                   const std::function<deck::Config(const base::Extents&)>& load);

/// Whether a row's mesh has several ranks in an expert group: tables then have a column for them.
template <class Row>
bool has_experts(const std::vector<Row>& rows) {
  return std::any_of(rows.begin(), rows.end(), [](const Row& row) { return row.mesh.expert != 1; });
}

/// The tables that `shard8 plan` prints as JSON, and the table of a sweep. Sizes are in bytes.
std::string to_text(const Sweep& sweep);
std::string to_json(const Sweep& sweep);
std::string to_json(const Plan& plan, const deck::Config& config);

}  // namespace shard8::train
