// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/directory.hpp"
#include "io/shard_file.hpp"

namespace shard8::checkpoint {

// What `shard8 ckpt` shows of checkpoints. One process; no MPI, no HDF5.

/// A table of the checkpoints in a folder, the last written first. The reasons why some are not usable follow it.
std::string list_text(const Directory& directory);

/// A box of a tensor, as it lies in a file.
struct PlacedBox {
  std::size_t file = 0;   ///< the index of the file in Manifest::files
  std::size_t index = 0;  ///< in the file
  io::Box box;
};

/// "shard_r0001.h5: /tensors/model.norm.weight/master/r0_c0": the dataset of a box, for messages.
std::string dataset_of(const Checkpoint& checkpoint, const io::ShardBox& box, std::size_t file);
std::string dataset_of(const Checkpoint& checkpoint, const ManifestTensor& tensor, const PlacedBox& box);

/// One persistent tensor.
struct TensorSummary {
  ManifestTensor tensor;
  std::vector<PlacedBox> boxes;  ///< ordered by their first row, then by their first column
  std::uint64_t bytes = 0;
  std::optional<std::uint64_t> hash;  ///< as hash_parts(): the same on every mesh; empty if not requested
};

/// All tensors in the order of the manifest. With `hashes` every value is read, and its digest checked; 64 MiB or a
/// row, whichever is larger, are in memory at once. Error(checkpoint) if the files cannot be read or do not fit the
/// manifest.
std::vector<TensorSummary> summarise(const Checkpoint& checkpoint, bool hashes);

/// Run, program, mesh, step, the keys of the deck that are not defaults, and a table of the tensors; with `boxes` also
/// a line for each box. In JSON every key of the deck is there, with its origin.
std::string show_text(const Checkpoint& checkpoint, const std::vector<TensorSummary>& tensors, bool boxes);
std::string show_json(const Checkpoint& checkpoint, const std::vector<TensorSummary>& tensors, bool boxes);

/// Why boxes do not cover a tensor exactly once, as the end of a message: a box that lies outside, two that overlap, or
/// elements in no box. Empty if they cover it. `boxes` have the tensor's shape and dtype; their order does not matter.
std::string problem_of_cover(const ManifestTensor& tensor, std::vector<PlacedBox> boxes, const Checkpoint& checkpoint);

/// Checks every byte of every file of a checkpoint against its digest, and that the boxes of each tensor cover it
/// exactly once. Each problem is a message with the file, what is wrong and what to do; none: the files are as they
/// were written. A file with a problem does not keep others from being checked.
std::vector<std::string> problems_of_files(const Checkpoint& checkpoint);

}  // namespace shard8::checkpoint
