// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/manifest.hpp"
#include "checkpoint/state_tensor.hpp"
#include "io/shard_file.hpp"
#include "tensor/runtime.hpp"

namespace shard8::checkpoint {

/// How elements that a checkpoint holds become those that a run keeps, where the deck names another dtype.
enum class Conversion : std::uint8_t {
  none,        ///< the dtypes are equal
  widen,       ///< bf16 to fp32, exact
  round,       ///< fp32 to bf16, to nearest even
  join,        ///< a bf16 master and its i16 remainder to the fp32 master, exact (kernels::join_master)
  upper_half,  ///< an fp32 master to the bf16 half of kernels::split_master
  lower_half,  ///< an fp32 master to the i16 remainder of kernels::split_master
};

/// Opens a shard file of the checkpoint in `folder` and checks its length and its index. Error(checkpoint) also if it
/// is of another run or step than the manifest.
io::ShardReader open_shard(const std::string& folder, const Manifest& manifest, std::size_t file);

/// A checkpoint that is open for reading, on any mesh. Every rank has an object of its own; none communicates. Errors
/// are Error(checkpoint) and name the file, the tensor, what is wrong and what to do.
class Reader {
 public:
  /// The manifest is that of the checkpoint in `folder`, which was checked when it was read. Opens no shard file: each
  /// is opened when it is first needed, and its length, its index and its identity are checked then.
  Reader(std::string folder, Manifest manifest, LikelyRanks likely = {});
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  const Manifest& manifest() const { return manifest_; }

  /// Checks that the checkpoint has every tensor of the list with its shape, and with its dtype or one from which
  /// restore() can convert: moments in fp32 or bf16, masters in fp32 or in bf16 with a remainder. Tensors that are not
  /// in the list are ignored.
  void require(const std::vector<StateTensor>& tensors) const;

  /// Fills this rank's parts of all tensors, which require() has accepted. Reads only the blocks that hold elements of
  /// these parts, checks their digests, and holds one part at most in host memory in addition to the tensors. Waits for
  /// `exec`.
  void restore(const tensor::Exec& exec, const std::vector<StateTensor>& tensors);

  /// Checks the bytes of the shard files that belong to no tensor: those of the files index, index + of, .... With one
  /// call on each of `of` ranks, every byte of the checkpoint is checked once all ranks have restored their parts.
  void verify_rest(int index, int of);

  /// The tensor as the manifest describes it; null if there is none.
  const ManifestTensor* find(const std::string& name, Content content) const;

  /// A shard file, in the order of the manifest.
  io::ShardReader& file(std::size_t f);
  std::size_t files() const { return files_.size(); }

  using Place = BoxIndex::Place;
  /// All boxes of a tensor, after all files were opened; empty if there is no such tensor.
  const std::vector<Place>& boxes_of(const std::string& name, const std::string& content);
  /// Reads a box of a tensor that may lie in several boxes of files: row i to out + i · row_stride_bytes.
  void read(const ManifestTensor& tensor, const io::Box& box, std::byte* out, std::int64_t row_stride_bytes);

 private:
  void require_boxes(const io::ShardReader& in, std::size_t f) const;
  /// What the elements of a tensor are made of.
  struct Source {
    const ManifestTensor* tensor = nullptr;
    const ManifestTensor* remainder = nullptr;  ///< of Conversion::join
    Conversion how = Conversion::none;
  };
  /// Error(checkpoint) if there is none.
  Source source_of(const StateTensor& t) const;
  /// Reads a box without gaps between its rows.
  void read_converted(const Source& source, const io::Box& box, std::byte* out);
  void restore_part(const tensor::Exec& exec, const StateTensor& t, const LocalPart& part);
  std::string where() const { return "checkpoint " + folder_; }

  std::string folder_;
  Manifest manifest_;
  std::map<std::pair<std::string, std::string>, const ManifestTensor*> tensors_;  ///< by name and content
  std::vector<std::unique_ptr<io::ShardReader>> files_;                           ///< null: not opened yet
  std::deque<std::size_t> descriptors_;  ///< files that have a descriptor, the longest without use first
  BoxIndex index_;
};

}  // namespace shard8::checkpoint
