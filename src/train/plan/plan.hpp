// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "fsdp/unit_buffers.hpp"
#include "model/operations.hpp"
#include "model/transformer_layer.hpp"
#include "profile/collective_log.hpp"
#include "tensor/arena.hpp"
#include "train/setup.hpp"

namespace shard8::train {

/// Calls a step of each kind of collective that this rank takes part in: what profile::CollectiveLog counts in a run.
using Traffic = std::map<profile::CollectiveKey, std::uint64_t>;

/// Of a step that is not the first, from its operations.
Traffic traffic(const Setup& setup, const fsdp::UnitBuffers& buffers);

/// Of a matrix product 2·M·N·K, of attention its products over the causal half; 0 of what is recomputed.
std::uint64_t model_flops(const model::Operation& operation);
/// Model FLOPs of one token, forward and backward, from the operations of one sequence: 6·(parameters in matrix
/// products) + 6·layers·hidden·seq.
double model_flops_per_token(const deck::ModelConfig& model);

/// What a run of this deck takes: memory by the code with which the run itself lays it out, the rest from the list of
/// operations of a step (train/operations.hpp).
struct Plan {
  tensor::MemoryBytes memory{};               ///< arenas of rank 0 by kind; no rank takes more
  model::TransformerLayer::KeptBytes kept{};  ///< of the activations, for the products of backward
  /// In which communicators receive what they sum; of a device, if its ranks can push to each other.
  std::size_t reduction_buffers = 0;
  Traffic traffic;                   ///< collectives of a rank in a step
  double flops_per_step = 0;         ///< of the whole job
  std::int64_t parameters = 0;       ///< of the whole model
  std::int64_t tokens_per_step = 0;  ///< of the global batch

  std::size_t total_bytes() const { return tensor::total(memory) + reduction_buffers; }
};

/// `threads` size the kernels' workspace.
Plan make_plan(const deck::Config& config, int threads);

/// The table that `shard8 plan` prints.
std::string to_text(const Plan& plan, const deck::Config& config);

}  // namespace shard8::train
