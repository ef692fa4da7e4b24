// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>
#include <string>

#include "checkpoint/find.hpp"
#include "checkpoint/reader.hpp"
#include "io/tensor_file.hpp"

namespace shard8::checkpoint {

/// The master weights of a checkpoint in fp32, by their Hugging Face names. A bf16 master is joined with its remainder,
/// bit for bit. Reads the blocks that hold the box that is asked for, and checks their digests. Errors are those of
/// Reader.
class Masters final : public io::TensorFile {
 public:
  /// `likely` only decides which shard files are opened first.
  explicit Masters(const Checkpoint& checkpoint, LikelyRanks likely = {});

  /// Whether the master is stored in two halves.
  bool is_split(const std::string& name) const;

  /// The tensor of any content as the manifest describes it; null if there is none.
  const ManifestTensor* find(const std::string& name, Content content) const { return reader_.find(name, content); }
  /// Reads a box of a tensor of find(), as Reader::read().
  void read(const ManifestTensor& tensor, const io::Box& box, std::byte* out, std::int64_t row_stride_bytes) const;

 private:
  void read_checked(const std::string& name, const io::Box& box, float* out, std::int64_t row_stride) const override;

  mutable std::mutex mutex_;  // of reader_, which opens files when they are first needed
  mutable Reader reader_;
};

}  // namespace shard8::checkpoint
