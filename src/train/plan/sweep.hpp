// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "deck/config.hpp"
#include "train/plan/plan.hpp"

namespace shard8::train {

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

/// Plans every mesh of `ranks` ranks. `load` makes the config of a mesh, and throws base::Error(deck) if it does not go
/// with the deck. Meshes that need more than `most` bytes a rank are counted and left out; 0: none is.
Sweep sweep_meshes(std::int64_t ranks, std::uint64_t most, int threads,
                   const std::function<deck::Config(const base::Extents&)>& load);

/// The tables that `shard8 plan` prints as JSON, and the table of a sweep. Sizes are in bytes.
std::string to_text(const Sweep& sweep);
std::string to_json(const Sweep& sweep);
std::string to_json(const Plan& plan, const deck::Config& config);

}  // namespace shard8::train
