// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/manifest.hpp"
#include "checkpoint/state_tensor.hpp"
#include "io/shard_file.hpp"
#include "tensor/exec.hpp"

namespace shard8::checkpoint {

/// A checkpoint that is open for reading, on any mesh. Every rank has an object of its own; none communicates. Errors
/// are Error(checkpoint) and name the file, the tensor, what is wrong and what to do.
class Reader {
 public:
  /// Opens every shard file of the checkpoint in `folder` and checks lengths and indexes. The manifest is that of the
  /// folder, which was checked when it was read.
  Reader(std::string folder, Manifest manifest);

  const Manifest& manifest() const { return manifest_; }

  /// Checks that the checkpoint has every tensor of the list with its dtype and its shape. Tensors that are not in the
  /// list are ignored.
  void require(const std::vector<StateTensor>& tensors) const;

  /// Fills this rank's parts of all tensors. Reads only the blocks that hold elements of these parts, checks their
  /// digests, and holds one part at most in host memory beside the tensors. Waits for `exec`.
  void restore(const tensor::Exec& exec, const std::vector<StateTensor>& tensors) const;

  /// Checks the bytes of the shard files that belong to no tensor: those of the files index, index + of, .... With one
  /// call on each of `of` ranks, every byte of the checkpoint is checked once all ranks have restored their parts.
  void verify_rest(int index, int of) const;

  /// The files, in the order of the manifest.
  const std::vector<std::unique_ptr<io::ShardReader>>& files() const { return files_; }

  /// Where a box of a tensor is: box `box` of files()[file].
  struct Place {
    std::size_t file = 0, box = 0;
  };
  /// The boxes of a tensor; empty if there is no such tensor. They cover it exactly once.
  const std::vector<Place>& boxes_of(const std::string& name, const std::string& content) const;
  /// Reads a box of a tensor that may lie in several boxes of files: row i to out + i · row_stride_bytes.
  void read(const std::string& name, const std::string& content, const io::Box& box, std::byte* out,
            std::int64_t row_stride_bytes) const;

 private:
  void restore_part(const tensor::Exec& exec, const StateTensor& t, const LocalPart& part) const;
  std::string where() const { return "checkpoint " + folder_; }

  std::string folder_;
  Manifest manifest_;
  std::vector<std::unique_ptr<io::ShardReader>> files_;
  std::map<std::pair<std::string, std::string>, std::vector<Place>> places_;
};

}  // namespace shard8::checkpoint
