// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "model/transformer_layer.hpp"
#include "train/traffic.hpp"

namespace shard8::train {

/// What a run of this deck takes, computed by the code that the run itself uses to lay out memory.
struct Plan {
  tensor::MemoryBytes memory{};               ///< arenas of rank 0 by kind (other ranks take the same)
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
