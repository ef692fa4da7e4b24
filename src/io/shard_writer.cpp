// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "base/error.hpp"
#include "base/text.hpp"
#include "io/digest.hpp"
#include "io/durable_file.hpp"
#include "io/shard_file.hpp"

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

}  // namespace shard8::io
