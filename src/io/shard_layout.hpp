// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/io_thread.hpp"
#include "io/shard_box.hpp"

namespace shard8::io {

/// The version of shard files that this program writes; it reads no newer one.
constexpr int kShardFormatVersion = 1;

/// What the index of a shard file says. It is JSON in a fixed order of keys, followed by spaces:
///
///     {"format":"shard8 shard","version":1,"run_id":"...","step":1200,"block_bytes":4194304,"boxes":[
///      {"name":"...","content":"master","dtype":"fp32","shape":[R,C],"box":[row0,rows,col0,cols],"offset":4096,
///       "bytes":1024,"digests":["16 digits",...]},...]}
struct ShardIndex {
  ShardIdentity identity;
  std::vector<ShardBox> boxes;
  bool operator==(const ShardIndex&) const = default;
};

/// The text of an index without the spaces. Boxes without digests get zeros, one for each block.
std::string shard_index_text(const ShardIdentity& identity, const std::vector<ShardBox>& boxes);

/// Bytes that are enough for the index of these boxes with whatever offsets and digests.
std::size_t shard_index_bytes(const ShardIdentity& identity, const std::vector<ShardBox>& boxes);

/// Reads an index. Throws Error(checkpoint) "where: what is wrong; what to do" unless the text is as ShardIndex says,
/// without other keys, and problem_of_boxes() finds nothing. Offsets may be any.
ShardIndex parse_shard_index(std::string_view text, const std::string& where);

/// Where everything lies in a shard file, an HDF5 file:
///
///     /                                   attributes format, format_version, run_id, step
///     /tensors/NAME/CONTENT/rROW0_cCOL0   a contiguous dataset for each box, (rows) or (rows, cols); attributes dtype,
///                                         shape (of the whole tensor), row0, col0
///     /index                              a scalar text of fixed length: ShardIndex
///
/// bf16 is stored as u16, the 8-bit floating-point types as u8. Data of 64 KiB or more begin at multiples of 4096.
struct ShardLayout {
  std::uint64_t length = 0;  ///< of the file
  ByteRange index;
  std::vector<std::byte> rest;  ///< the bytes of rest_of(), one piece behind the other
};

/// Has HDF5 lay out the file on the I/O thread, and sets the offsets of index.boxes. Nothing is written to a disk: HDF5
/// writes into memory, as it cannot recover from a disk that is full; the memory holds its structures, not the data.
/// problem_of_boxes() must have found nothing. Error(failed) if this process may not write files so long (ulimit -f),
/// or if HDF5 fails; `path` is for the messages.
ShardLayout lay_out_shard(IoThread& io, const std::string& path, ShardIndex& index);

}  // namespace shard8::io
