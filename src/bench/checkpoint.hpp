// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/assembly.hpp"
#include "train/checkpoints.hpp"

namespace shard8::bench {

struct CheckpointSettings {
  int runs = 5;
  std::string dir;            ///< a folder in it, which must not exist before, is made and removed
  bool evict = true;          ///< pages of the files are evicted before they are loaded
  train::RunDescription run;  ///< for the manifests
};

/// Seconds of the slowest rank, and bytes/s of all ranks and of the slowest one, of one transfer.
struct Transfer {
  double seconds = 0, bytes_per_s = 0, slowest_bytes_per_s = 0;
};

struct CheckpointRun {
  Transfer save;         ///< training waits: from the begin until it is durable
  Transfer plain;        ///< as many bytes a rank written in pieces of 4 MiB to a file of its own, then fsync
  Transfer load;         ///< into the same state on the same mesh, all digests checked
  Transfer async;        ///< written while steps are trained: from the begin until it is durable
  double held_up_s = 0;  ///< what these steps waited because of the checkpoint, of the slowest rank
  int steps = 0;         ///< how many were trained meanwhile
};

struct CheckpointBench {
  std::uint64_t bytes = 0;  ///< of one checkpoint
  int ranks = 0;
  std::vector<CheckpointRun> runs;
};

/// The deck of which the benchmark assembles the state: synthetic data, checkpoints when the benchmark asks for them.
deck::Config checkpoint_bench_deck(deck::Config config);

/// Saves and loads the state of `assembly`, which has opened its files and started, with checkpoint_bench_deck().
/// Collective. AgreedError(verification) when what was loaded differs from what was saved, AgreedError(failed) when a
/// checkpoint could not be written, others as train::CheckpointFolder and train::restore say. Nothing is left in the
/// folder of the settings.
CheckpointBench bench_checkpoint(train::Assembly& assembly, const CheckpointSettings& settings);

/// A table of the smallest, mean and largest figures, and the same as JSON. GB is 1e9 bytes.
std::string to_text(const CheckpointBench& bench);
std::string to_json(const CheckpointBench& bench);

}  // namespace shard8::bench
