// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/box.hpp"

namespace shard8::io {

/// Bytes of a block, the unit of digests and of reading: a reader that wants one byte reads its block. Chosen: large
/// enough for full speed of a disk, small enough for a processor's cache.
constexpr std::uint64_t kShardBlock = std::uint64_t{4} << 20;

/// One box of one tensor, as it lies in a shard file: (box.rows, box.cols) values, row-major, without gaps.
struct ShardBox {
  std::string name;     ///< of the tensor: a Hugging Face name
  std::string content;  ///< what the tensor holds of the parameter: "master", "exp_avg", ...
  std::string dtype;    ///< one of shard_dtypes()
  std::int64_t element_bytes = 0;
  std::vector<std::int64_t> shape;     ///< of the whole tensor, (n) or (R, C)
  Box box;                             ///< in the coordinates of the whole tensor; not empty
  std::uint64_t offset = 0;            ///< of the first byte in the file
  std::vector<std::uint64_t> digests;  ///< digest64() of each block of kShardBlock bytes; the last block may be short

  std::uint64_t bytes() const { return static_cast<std::uint64_t>(box.count() * element_bytes); }
  std::uint64_t blocks() const { return (bytes() + kShardBlock - 1) / kShardBlock; }
  /// The bytes of block `block`.
  std::uint64_t block_bytes(std::uint64_t block) const;
  /// "'model.norm.weight', master, rows 0 to 8, columns 0 to 1", for messages.
  std::string label() const;
  bool operator==(const ShardBox&) const = default;
};

/// To which run a file belongs and when it was written.
struct ShardIdentity {
  std::string run_id;
  std::int64_t step = 0;  ///< steps done
  bool operator==(const ShardIdentity&) const = default;
};

/// What must be known from elsewhere to verify a file.
struct ShardSummary {
  std::string file;  ///< the name of the file without folders
  std::uint64_t length = 0;
  std::uint64_t index_offset = 0, index_bytes = 0;
  std::string index_digest;  ///< digest128() of the index
  std::string rest_digest;   ///< digest128() of all bytes that are in no box and not in the index, in their order
  bool operator==(const ShardSummary&) const = default;
};

/// A piece of a file.
struct ByteRange {
  std::uint64_t offset = 0, bytes = 0;
  std::uint64_t end() const { return offset + bytes; }
  bool operator==(const ByteRange&) const = default;
};

struct ShardDtype {
  std::string_view name;
  std::int64_t element_bytes;
};
/// The dtypes of boxes, named as tensor::name_of() does.
const std::vector<ShardDtype>& shard_dtypes();

/// Why boxes cannot be in one file, as the end of a message: a bad name, dtype, shape or box, or two with the same
/// place. Empty if they can. Offsets and digests are not looked at.
///
/// Names are UTF-8 without '/' and control characters, of 1 to 1024 bytes, and neither "." nor "..": HDF5 would take
/// these for paths.
std::string problem_of_boxes(const std::vector<ShardBox>& boxes);

/// Why the boxes' offsets cannot be those of a file of `length` bytes with this index: a box or the index ends behind
/// the file, or two of them overlap. Empty if they can be. problem_of_boxes() must have found nothing.
std::string problem_of_places(const std::vector<ShardBox>& boxes, const ByteRange& index, std::uint64_t length);

/// The pieces of a file that are in no box and not in the index, in their order: HDF5's own structures, and gaps.
/// problem_of_places() must have found nothing.
std::vector<ByteRange> rest_of(const std::vector<ShardBox>& boxes, const ByteRange& index, std::uint64_t length);

}  // namespace shard8::io
