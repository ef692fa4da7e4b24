// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/axes.hpp"
#include "io/box.hpp"
#include "tensor/runtime.hpp"
#include "tensor/tensor.hpp"

namespace shard8::checkpoint {

/// What a persistent tensor holds. Up to fp8_columnwise_scale_inv it belongs to the parameter whose Hugging Face name
/// it has; the last three belong to no parameter.
enum class Content : std::uint8_t {
  master,            ///< fp32, or bf16 with a remainder
  master_remainder,  ///< i16: the low half of an fp32 master
  exp_avg,           ///< the first moment of AdamW
  exp_avg_sq,        ///< the second moment
  fp8_rowwise,       ///< the weight in FP8 as the forward product reads it; also as dgrad does if there is one copy
  fp8_rowwise_scale_inv,
  fp8_columnwise,  ///< the copy that dgrad reads, of recipes with two
  fp8_columnwise_scale_inv,
  // The scaling state of all matrices in FP8. `layers` is the number of layers in FP8, with 4 linears each. With
  // experts all numbers lie in one dimension, since weights then have more columns than other roles:
  // fp8::ScalingState::kept_scales() and history().
  fp8_scale,            ///< (roles, 4·layers) fp32: 3 roles with delayed, only that of weights with current
  fp8_amax_history,     ///< (3·amax_history, 4·layers) i32: a row for each role and step
  fp8_history_entries,  ///< (3) i32: for each role, the number of steps that were ever added to its history
};
std::string_view name_of(Content content);

/// Elements of a tensor that lie on this rank.
struct LocalPart {
  io::Box box;              ///< in coordinates of the whole tensor, as files hold it
  bool transposed = false;  ///< element (r, c) of the box is local(c, r), else local(r, c)
  tensor::Tensor local;     ///< box.count() elements; without data in a measuring arena
  /// Where the elements of the box lie in `local`, counted in elements.
  io::StridedBox memory() const;
};

/// One persistent tensor, named and laid out as in Hugging Face checkpoints, and what this rank holds of it. The same
/// list of tensors, with the same names, contents, dtypes and shapes, is on every rank; only the parts differ.
struct StateTensor {
  std::string name;
  Content content = Content::master;
  tensor::DType dtype = tensor::DType::fp32;
  tensor::Shape shape;           ///< of the whole tensor, one or two dimensions
  base::AxisSet sharded;         ///< ranks along these axes hold different boxes; along the others, equal copies
  bool in_host_memory = false;   ///< the parts are not in memory of the execution space
  int group = 0;                 ///< a step changes all tensors of a group at the same time; numbered from 0
  std::vector<LocalPart> parts;  ///< disjoint; none is empty

  /// Whether the rank at `place` is the first of the ranks that hold the same boxes. The parts of the ranks for which
  /// this is true cover the tensor exactly once.
  bool counts(const base::Place& place) const { return place.first(sharded.others()); }
  /// The extents of `shape`, as files hold them.
  std::vector<std::int64_t> extents() const;
  /// "NAME, CONTENT", for messages.
  std::string label() const;
};

/// A hash of one element: of its index in the whole row-major tensor, and of its bits, little-endian and filled up with
/// zeros.
std::uint64_t hash_element(std::int64_t index, std::uint64_t bits);

/// The sum modulo 2^64 of the hashes of the elements in this rank's parts. The sum of the results over the ranks for
/// which counts() is true is the hash of the whole tensor, the same on every mesh. Copies about 4 MiB at a time to the
/// host; waits for `exec`. The parts must have data.
std::uint64_t hash_parts(const tensor::Exec& exec, const StateTensor& tensor);

/// Copies elements [first, first + count) of the transpose of `from`, a row-major (rows, cols) tensor with elements of
/// `size` bytes, to `to`. Error(failed) if `size` is not 1, 2 or 4.
void copy_transposed(std::byte* to, const std::byte* from, std::int64_t rows, std::int64_t cols, std::size_t size,
                     std::int64_t first, std::int64_t count);

/// The ranks of the mesh that wrote a checkpoint which probably hold elements of a box of the tensor (name, content).
/// The box is in coordinates of a tensor with these extents, as files hold it. The answer may be wrong or empty: it
/// only decides into which files a BoxIndex looks first.
using LikelyRanks = std::function<std::vector<std::int64_t>(
    const std::string& name, const std::string& content, const std::vector<std::int64_t>& shape, const io::Box& box)>;

/// Finds in which shard files the elements of a box are. The boxes of a file are in the file's own index, so a file
/// must be opened to know them. This class opens files one after the other, those of the likely ranks first, and stops
/// as soon as the wanted box is covered: a rank of a large job opens a few files in place of all.
class BoxIndex {
 public:
  /// Opens file `file` and returns its boxes, which must stay where they are.
  using Open = std::function<const std::vector<io::ShardBox>&(std::size_t file)>;

  /// `names` are those of the files (ManifestFile). `ranks`: of the mesh that wrote them.
  BoxIndex(const std::vector<std::string>& names, std::int64_t ranks, Open open, LikelyRanks likely);

  /// Box `box` of file `file`.
  struct Place {
    std::size_t file = 0, box = 0;
  };
  /// Places of a tensor's boxes that together hold every element of `box`, in the order of files. If there are not
  /// enough elements in all files, or too many, they hold another number of elements than the box.
  std::vector<Place> find(const std::string& name, const std::string& content, const std::vector<std::int64_t>& shape,
                          const io::Box& box);

  /// Opens all files that are not open.
  void open_all();
  /// All boxes of a tensor in the files that are open.
  const std::vector<Place>& boxes_of(const std::string& name, const std::string& content) const;
  std::size_t opened() const { return opened_; }

 private:
  void open(std::size_t file);
  std::size_t file_of(std::int64_t rank) const;
  const io::ShardBox& at(const Place& place) const { return (*boxes_[place.file])[place.box]; }
  std::int64_t elements(const std::vector<Place>& places, const io::Box& box) const;

  std::map<std::int64_t, std::size_t> file_of_rank_;  ///< where each rank has a file
  std::int64_t ranks_;
  Open open_;
  LikelyRanks likely_;
  std::vector<const std::vector<io::ShardBox>*> boxes_;  ///< of each file; null: it is not open
  std::size_t opened_ = 0;
  std::map<std::pair<std::string, std::string>, std::vector<Place>> places_;  ///< in the order of files
};

}  // namespace shard8::checkpoint
