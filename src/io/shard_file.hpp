// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/box.hpp"
#include "io/io_thread.hpp"
#include "io/raw_file.hpp"

namespace shard8::io {

/// The version of shard files that this program writes; it reads no newer one.
constexpr int kShardFormatVersion = 1;

/// What the index of a shard file says. The index is JSON in a fixed order of keys, followed by spaces:
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

// A shard file is an HDF5 file that holds boxes of tensors, see ShardLayout. HDF5 lays it out; the data are written and
// read at their offsets without HDF5, by any threads, with a digest for each block of kShardBlock bytes. The digests
// are in the file's index; those of the index and of all other bytes are in the ShardSummary, so that every byte of a
// file is covered.

/// Writes the data of boxes into a file that exists and keeps their digests. For processes other than the one that has
/// the ShardWriter: they get its boxes, for instance as shard_index_text(), and give it their digests.
class ShardBlockWriter {
 public:
  /// `boxes` have the offsets that the ShardWriter of the file set.
  ShardBlockWriter(RawFile file, std::vector<ShardBox> boxes);
  ShardBlockWriter(const std::string& path, std::vector<ShardBox> boxes)
      : ShardBlockWriter(RawFile::open_for_writing(path), std::move(boxes)) {}

  /// Digests of blocks that were not written are 0.
  const std::vector<ShardBox>& boxes() const { return boxes_; }

  /// Writes bytes of a box, from its byte `first_byte` on, a multiple of kShardBlock: whole blocks, of which the box's
  /// last one may be short. Each block is written once. Any thread may call this. Error(failed) as RawFile says. The
  /// blocks go to the disk at once: few are waiting in memory, so that neither the page cache fills up nor sync() takes
  /// long.
  void write(std::size_t box, std::uint64_t first_byte, std::span<const std::byte> bytes);

  /// Writes one block and returns its digest, which adopt() takes once it is final: a block may be put again.
  std::uint64_t put(std::size_t box, std::uint64_t block, std::span<const std::byte> bytes);

  /// From now on, blocks are written with RawFile::write_direct() where the file system can: for a thread that writes
  /// while all processors compute.
  void use_direct_io() { direct_ = file_.open_direct(); }

  /// Takes the digests of blocks of a box that another process has written, from block `first_block` on.
  void adopt(std::size_t box, std::uint64_t first_block, std::span<const std::uint64_t> digests);

  /// Error(failed) if a block was neither written nor adopted.
  void require_complete() const;

  RawFile& file() { return file_; }

 private:
  void make_room();
  void write_behind(const ByteRange& block);

  RawFile file_;
  bool direct_ = false;
  std::vector<ShardBox> boxes_;
  mutable std::mutex mutex_;                // of the others
  std::vector<std::vector<bool>> written_;  // for each box and block
  std::deque<ByteRange> in_flight_;         // going to the disk
};

/// Makes a shard file. Unless finish() has returned, the destructor removes it.
class ShardWriter {
 public:
  /// Makes the file, which must not exist, with room for the boxes, and sets their offsets; their digests are ignored.
  /// Error(failed) where problem_of_boxes() finds something, where there is no room, or as RawFile and lay_out_shard()
  /// say.
  ShardWriter(IoThread& io, const std::string& path, ShardIdentity identity, std::vector<ShardBox> boxes);
  ~ShardWriter();
  ShardWriter(const ShardWriter&) = delete;
  ShardWriter& operator=(const ShardWriter&) = delete;

  const std::vector<ShardBox>& boxes() const { return blocks_->boxes(); }

  ShardBlockWriter& blocks() { return *blocks_; }
  /// As ShardBlockWriter.
  void write(std::size_t box, std::uint64_t first_byte, std::span<const std::byte> bytes) {
    blocks_->write(box, first_byte, bytes);
  }
  void adopt(std::size_t box, std::uint64_t first_block, std::span<const std::uint64_t> digests) {
    blocks_->adopt(box, first_block, digests);
  }

  /// Writes the index and makes the file and its name survive a crash. Every block must have been written or adopted,
  /// and other processes must have synced their file().
  ShardSummary finish();

 private:
  std::string path_;
  ShardIdentity identity_;
  ShardSummary summary_;
  std::unique_ptr<ShardBlockWriter> blocks_;
  bool finished_ = false;
};

/// A shard file for reading. One thread at a time may call its functions.
///
/// Errors are Error(checkpoint). The messages name the file, the tensor and the bytes that are damaged, and what to do.
class ShardReader {
 public:
  /// Opens a file and checks its length and its index.
  ShardReader(const std::string& path, ShardSummary summary);

  const ShardIdentity& identity() const { return index_.identity; }
  const std::vector<ShardBox>& boxes() const { return index_.boxes; }

  /// Closes the file. The functions below open it again.
  void release() const { file_.reset(); }

  /// Reads `wanted`, a part of a box in the coordinates of the whole tensor. Row i of it goes to out + i ·
  /// row_stride_bytes, without gaps in a row. Every block that holds a wanted byte is read whole and checked: wanted
  /// boxes should be large, and rows in place of columns.
  void read(std::size_t box, const Box& wanted, std::byte* out, std::int64_t row_stride_bytes) const;

  /// Checks the bytes that are in no box and not in the index.
  void verify_rest() const;
  /// Checks every byte of the file.
  void verify_all() const;

 private:
  const RawFile& file() const;
  std::string read_index() const;
  void read_block(const ShardBox& box, std::uint64_t block, std::span<std::byte> out) const;

  std::string path_;
  mutable std::optional<RawFile> file_;  ///< while it is open
  ShardSummary summary_;
  ShardIndex index_;
};

}  // namespace shard8::io
