// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "io/shard_file.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>

#include "base/error.hpp"
#include "base/text.hpp"
#include "io/digest.hpp"
#include "io/file.hpp"

namespace shard8::io {
namespace {

/// Blocks of a writer that are on their way to the disk. Chosen: 32 MiB, enough for a disk to be busy.
constexpr std::size_t kInFlight = 8;

ShardIndex checked_index(const std::string& path, ShardIdentity identity, std::vector<ShardBox> boxes) {
  SHARD8_REQUIRE(identity.step >= 0 && base::is_utf8(identity.run_id), "'{}': step {} or a run id that is not UTF-8",
                 path, identity.step);
  if (const auto problem = problem_of_boxes(boxes); !problem.empty()) {
    base::fail(base::ExitCode::failed, "'{}': cannot be laid out: {}", path, problem);
  }
  for (auto& box : boxes) box.digests.clear();
  return {std::move(identity), std::move(boxes)};
}

/// Makes the file with everything but its boxes and its index. Removes it if that fails.
RawFile make_file(const std::string& path, const ShardLayout& layout, const std::vector<ShardBox>& boxes) {
  RawFile file = RawFile::create(path);
  try {
    file.set_length(layout.length);
    std::span<const std::byte> rest = layout.rest;
    for (const auto& range : rest_of(boxes, layout.index, layout.length)) {
      file.write(rest.first(range.bytes), range.offset);
      rest = rest.subspan(range.bytes);
    }
  } catch (...) {
    ::unlink(path.c_str());
    throw;
  }
  return file;
}

}  // namespace

ShardBlockWriter::ShardBlockWriter(RawFile file, std::vector<ShardBox> boxes)
    : file_(std::move(file)), boxes_(std::move(boxes)) {
  for (auto& box : boxes_) {
    box.digests.assign(box.blocks(), 0);
    written_.emplace_back(box.blocks(), false);
  }
}

void ShardBlockWriter::write(std::size_t box, std::uint64_t first_byte, std::span<const std::byte> bytes) {
  const ShardBox& at = boxes_.at(box);
  const std::uint64_t size = at.bytes();
  SHARD8_REQUIRE(first_byte % kShardBlock == 0 && first_byte <= size && bytes.size() <= size - first_byte &&
                     (bytes.size() % kShardBlock == 0 || first_byte + bytes.size() == size),
                 "'{}': {}: {} bytes from byte {} are not whole blocks of {}", file_.path(), at.label(), bytes.size(),
                 first_byte, size);
  for (std::uint64_t block = first_byte / kShardBlock; !bytes.empty(); ++block) {
    const auto part = bytes.first(at.block_bytes(block));
    const std::uint64_t digest = put(box, block, part);
    adopt(box, block, {&digest, 1});
    bytes = bytes.subspan(part.size());
  }
}

std::uint64_t ShardBlockWriter::put(std::size_t box, std::uint64_t block, std::span<const std::byte> bytes) {
  const ShardBox& at = boxes_.at(box);
  SHARD8_REQUIRE(block < at.blocks() && bytes.size() == at.block_bytes(block),
                 "'{}': {}: {} bytes are not block {} of {}", file_.path(), at.label(), bytes.size(), block,
                 at.blocks());
  const std::uint64_t offset = at.offset + block * kShardBlock;
  const std::uint64_t digest = digest64(bytes);  // first, so that the write finds the block in a cache
  if (direct_) {
    file_.write_direct(bytes, offset);
    return digest;
  }
  make_room();
  file_.write(bytes, offset);
  write_behind({offset, bytes.size()});
  return digest;
}

/// Waits until fewer than kInFlight blocks are on their way.
void ShardBlockWriter::make_room() {
  for (;;) {
    ByteRange oldest;
    {
      const std::scoped_lock lock(mutex_);
      if (in_flight_.size() < kInFlight) return;
      oldest = in_flight_.front();
      in_flight_.pop_front();
    }
    file_.end_writeback(oldest.offset, oldest.bytes);
  }
}

/// Small blocks stay in the page cache until sync().
void ShardBlockWriter::write_behind(const ByteRange& block) {
  constexpr std::uint64_t kLeast = std::uint64_t{1} << 20;
  if (block.bytes < kLeast) return;
  file_.start_writeback(block.offset, block.bytes);
  const std::scoped_lock lock(mutex_);
  in_flight_.push_back(block);
}

void ShardBlockWriter::adopt(std::size_t box, std::uint64_t first_block, std::span<const std::uint64_t> digests) {
  const std::scoped_lock lock(mutex_);
  ShardBox& at = boxes_.at(box);
  SHARD8_REQUIRE(first_block <= at.blocks() && digests.size() <= at.blocks() - first_block,
                 "'{}': {}: {} blocks from block {} of {}", file_.path(), at.label(), digests.size(), first_block,
                 at.blocks());
  for (std::size_t i = 0; i < digests.size(); ++i) {
    SHARD8_REQUIRE(!written_[box][first_block + i], "'{}': {}: block {} is written twice", file_.path(), at.label(),
                   first_block + i);
    written_[box][first_block + i] = true;
    at.digests[first_block + i] = digests[i];
  }
}

void ShardBlockWriter::require_complete() const {
  const std::scoped_lock lock(mutex_);
  for (std::size_t i = 0; i < boxes_.size(); ++i) {
    const auto missing = std::find(written_[i].begin(), written_[i].end(), false);
    SHARD8_REQUIRE(missing == written_[i].end(), "'{}': {}: block {} was not written", file_.path(), boxes_[i].label(),
                   missing - written_[i].begin());
  }
}

ShardWriter::ShardWriter(IoThread& io, const std::string& path, ShardIdentity identity, std::vector<ShardBox> boxes)
    : path_(path) {
  ShardIndex index = checked_index(path, std::move(identity), std::move(boxes));
  const ShardLayout layout = lay_out_shard(io, path, index);
  blocks_ = std::make_unique<ShardBlockWriter>(make_file(path, layout, index.boxes), std::move(index.boxes));
  identity_ = std::move(index.identity);
  summary_ = {std::filesystem::path(path).filename().string(),
              layout.length,
              layout.index.offset,
              layout.index.bytes,
              "",
              digest128(std::span(layout.rest))};
}

ShardWriter::~ShardWriter() {
  if (!finished_) ::unlink(path_.c_str());
}

ShardSummary ShardWriter::finish() {
  SHARD8_REQUIRE(!finished_, "'{}' is finished twice", path_);
  blocks_->require_complete();
  std::string text = shard_index_text(identity_, blocks_->boxes());
  SHARD8_REQUIRE(text.size() <= summary_.index_bytes, "'{}': the index has {} bytes, planned were {}", path_,
                 text.size(), summary_.index_bytes);
  text.resize(summary_.index_bytes, ' ');
  RawFile& file = blocks_->file();
  file.write(std::as_bytes(std::span(text)), summary_.index_offset);
  file.sync();
  file.close();
  sync_folder(std::filesystem::path(path_).parent_path().string());
  summary_.index_digest = digest128(text);
  finished_ = true;
  return summary_;
}

namespace {

constexpr std::uint64_t kLargestIndex = std::uint64_t{256} << 20;  // chosen: of about 10 million blocks

/// How far ahead of a block the system is requested to fetch the next ones, in bytes. Chosen: what a fast disk delivers
/// while a block is checked and copied. Boxes that follow one another in a file are mostly read one after the other.
constexpr std::uint64_t kReadAhead = 8 * kShardBlock;

/// Room for one block, without zeroing it.
std::unique_ptr<std::byte[]> block_buffer() { return std::make_unique_for_overwrite<std::byte[]>(kShardBlock); }

template <class... Args>
[[noreturn]] void unusable(const std::string& path, fmt::format_string<Args...> format, Args&&... args) {
  base::fail(base::ExitCode::checkpoint, "'{}': {}; use another checkpoint, or copy this file again", path,
             fmt::format(format, std::forward<Args>(args)...));
}

/// What an index with a wrong digest says of itself, for a message.
std::string says(const std::string& text) {
  try {
    const auto identity = parse_shard_index(text, "").identity;
    return fmt::format("is one of run '{}' after step {}, not the one", base::quotable(identity.run_id), identity.step);
  } catch (const base::Error&) {
    return "is damaged, or not the one";
  }
}

/// Bytes of a box that are wanted: `rows` pieces of `bytes` each, the first from byte `first` of the box on, the others
/// `pitch` bytes apart. In memory they are `stride` bytes apart.
struct Pieces {
  std::uint64_t first, rows, bytes, pitch;
  std::int64_t stride;

  std::uint64_t end() const { return first + (rows - 1) * pitch + bytes; }
  std::uint64_t begin_of(std::uint64_t row) const { return first + row * pitch; }
  /// The first row with a byte at or behind byte `at` of the box.
  std::uint64_t row_from(std::uint64_t at) const { return at < first + bytes ? 0 : (at - first - bytes) / pitch + 1; }
  /// The first row that begins at or behind byte `at`.
  std::uint64_t row_until(std::uint64_t at) const {
    return at <= first ? 0 : std::min(rows, (at - first - 1) / pitch + 1);
  }
};

Pieces pieces_of(const ShardBox& box, const Box& wanted, std::int64_t stride) {
  const auto element = static_cast<std::uint64_t>(box.element_bytes);
  const auto pitch = static_cast<std::uint64_t>(box.box.cols) * element;
  const auto row = static_cast<std::uint64_t>(wanted.row0 - box.box.row0);
  const auto col = static_cast<std::uint64_t>(wanted.col0 - box.box.col0);
  const auto rows = static_cast<std::uint64_t>(wanted.rows);
  const auto bytes = static_cast<std::uint64_t>(wanted.cols) * element;
  const Pieces pieces = {row * pitch + col * element, rows, bytes, pitch, stride};
  // Whole rows that follow each other in memory, too, are one piece.
  if (bytes == pitch && stride == static_cast<std::int64_t>(pitch))
    return {pieces.first, 1, rows * bytes, pitch, stride};
  return pieces;
}

}  // namespace

ShardReader::ShardReader(const std::string& path, ShardSummary summary) : path_(path), summary_(std::move(summary)) {
  if (const auto length = file().length(); length != summary_.length) {
    unusable(path, "has {} bytes, the manifest says {}", length, summary_.length);
  }
  const ByteRange place = {summary_.index_offset, summary_.index_bytes};
  if (const auto problem = problem_of_places({}, place, summary_.length); !problem.empty()) {
    unusable(path, "by the manifest, {}", problem);
  }
  if (place.bytes > kLargestIndex) {
    unusable(path, "by the manifest, its index has {} bytes; at most {} are read", place.bytes, kLargestIndex);
  }
  index_ = parse_shard_index(read_index(), "'" + path + "'");
  const auto problem = problem_of_places(index_.boxes, place, summary_.length);
  if (!problem.empty()) unusable(path, "its index is not valid: {}", problem);
}

const RawFile& ShardReader::file() const {
  if (!file_) file_.emplace(RawFile::open_for_reading(path_));
  return *file_;
}

std::string ShardReader::read_index() const {
  std::string text(summary_.index_bytes, '\0');
  file().read(std::as_writable_bytes(std::span(text)), summary_.index_offset);
  if (const auto digest = digest128(text); digest != summary_.index_digest) {
    unusable(path_, "its index {} of the manifest: its digest is {}, needed is {}", says(text), digest,
             base::quotable(summary_.index_digest));
  }
  return text;
}

void ShardReader::read_block(const ShardBox& box, std::uint64_t block, std::span<std::byte> out) const {
  const auto at = box.offset + block * kShardBlock;
  file().will_read(at + kReadAhead, kShardBlock);
  file().read(out, at);
  if (const auto digest = digest64(out); digest != box.digests[block]) {
    unusable(path_, "{}: damaged in bytes {} to {}: their digest is {}, needed is {}", box.label(), at, at + out.size(),
             hex_of(digest), hex_of(box.digests[block]));
  }
}

void ShardReader::read(std::size_t box, const Box& wanted, std::byte* out, std::int64_t row_stride_bytes) const {
  const ShardBox& from = index_.boxes.at(box);
  if (wanted.empty()) return;
  SHARD8_REQUIRE(intersect(from.box, wanted) == wanted, "'{}': {}: rows {} to {}, columns {} to {} are not in it",
                 path_, from.label(), wanted.row0, wanted.row0 + wanted.rows, wanted.col0, wanted.col0 + wanted.cols);
  const Pieces pieces = pieces_of(from, wanted, row_stride_bytes);
  std::unique_ptr<std::byte[]> buffer;
  for (std::uint64_t block = pieces.first / kShardBlock; block * kShardBlock < pieces.end(); ++block) {
    const ByteRange place = {block * kShardBlock, from.block_bytes(block)};
    const auto row_begin = pieces.row_from(place.offset), row_end = pieces.row_until(place.end());
    if (row_begin >= row_end) continue;
    const auto memory_of = [&](std::uint64_t row) { return out + static_cast<std::int64_t>(row) * pieces.stride; };
    if (const auto begin = pieces.begin_of(row_begin);
        begin <= place.offset && place.end() <= begin + pieces.bytes) {  // the block is wanted whole, in one piece
      read_block(from, block, {memory_of(row_begin) + (place.offset - begin), place.bytes});
      continue;
    }
    if (!buffer) buffer = block_buffer();
    read_block(from, block, {buffer.get(), place.bytes});
    for (auto row = row_begin; row < row_end; ++row) {
      const auto piece = pieces.begin_of(row);
      const auto begin = std::max(piece, place.offset), end = std::min(piece + pieces.bytes, place.end());
      std::memcpy(memory_of(row) + (begin - piece), buffer.get() + (begin - place.offset), end - begin);
    }
  }
}

void ShardReader::verify_rest() const {
  const auto buffer = block_buffer();
  Digest128 digest;
  for (const auto& range : rest_of(index_.boxes, {summary_.index_offset, summary_.index_bytes}, summary_.length)) {
    for (std::uint64_t done = 0; done < range.bytes; done += kShardBlock) {
      const std::span<std::byte> part(buffer.get(), std::min(kShardBlock, range.bytes - done));
      file().read(part, range.offset + done);
      digest.add(part);
    }
  }
  if (digest.hex() != summary_.rest_digest) {
    unusable(path_, "damaged outside of its tensors and its index: the digest of these bytes is {}, needed is {}",
             digest.hex(), base::quotable(summary_.rest_digest));
  }
}

void ShardReader::verify_all() const {
  read_index();
  const auto buffer = block_buffer();
  for (const auto& box : index_.boxes) {
    for (std::uint64_t block = 0; block < box.blocks(); ++block) {
      read_block(box, block, {buffer.get(), box.block_bytes(block)});
    }
  }
  verify_rest();
}

}  // namespace shard8::io
