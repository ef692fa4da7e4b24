// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shard8::io {

/// Rows [row0, row0 + rows) and columns [col0, col0 + cols) of a tensor seen as a matrix: a tensor
/// of shape (R, C) is R × C, one of shape (n) is n × 1, a scalar is 1 × 1. No extent is negative.
struct Box {
  std::int64_t row0 = 0;
  std::int64_t rows = 0;
  std::int64_t col0 = 0;
  std::int64_t cols = 0;

  std::int64_t count() const { return rows * cols; }
  bool empty() const { return rows == 0 || cols == 0; }
  /// Whether the box is all of a tensor (tensor_rows, tensor_cols).
  bool whole(std::int64_t tensor_rows, std::int64_t tensor_cols) const {
    return row0 == 0 && col0 == 0 && rows == tensor_rows && cols == tensor_cols;
  }
  bool operator==(const Box&) const = default;
};

/// The elements that are in both boxes; Box{} if there are none.
Box intersect(const Box& a, const Box& b);

/// The part of the box in rows [first, first + count) of the tensor. If there is none it has no rows, but the box's
/// columns.
Box clip_rows(const Box& box, std::int64_t first, std::int64_t count);

/// The box that has the same elements in the transposed tensor.
Box transposed(const Box& box);

/// The box with rows and columns counted in blocks of row_block × col_block elements. Throws Error(failed) if the box
/// begins or ends inside a block.
Box in_blocks(const Box& box, std::int64_t row_block, std::int64_t col_block);

/// Where the elements of a box lie in memory. Offsets and strides count elements.
struct StridedBox {
  Box box;
  std::int64_t offset = 0;  ///< of the box's first element, from the beginning of the memory
  std::int64_t row_stride = 0, col_stride = 1;

  /// A box in memory that holds the whole tensor, row-major, with `cols` elements a row.
  static StridedBox of(const Box& box, std::int64_t cols);

  /// The offset of element (row, col) of the tensor, which must be in the box.
  std::int64_t at(std::int64_t row, std::int64_t col) const {
    return offset + (row - box.row0) * row_stride + (col - box.col0) * col_stride;
  }
};

/// The part of memory.box that is in `box`, in the same memory.
StridedBox intersect(const StridedBox& memory, const Box& box);

/// The box of the same elements in the transposed tensor, in the same memory, where nothing moves.
StridedBox transposed(const StridedBox& memory);

/// `count` indices of one dimension: start, start + stride, ...
struct Range {
  std::int64_t start = 0;
  std::int64_t count = 0;
  std::int64_t stride = 1;
};

/// Divides the elements [first, first + count) of a row-major array, which must be in it, into few boxes. Calls
/// visit(ranges, elements) for each box in order, with one range for each dimension and the number of elements. In each
/// box row-major order is the array's order. An array without dimensions has one element and a box without ranges.
void for_each_box(std::span<const std::int64_t> shape, std::int64_t first, std::int64_t count,
                  const std::function<void(std::span<const Range>, std::int64_t)>& visit);

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
