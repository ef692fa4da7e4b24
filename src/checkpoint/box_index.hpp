// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "io/shard_box.hpp"

namespace shard8::checkpoint {

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
