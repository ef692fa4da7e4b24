// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"
#include "data/dataset_kinds.hpp"
#include "io/file.hpp"

namespace shard8::data {

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kByteValues = 256;
constexpr std::size_t kKeptOpen = 128;  // files; chosen far below the usual limit of 1024 descriptors

/// The files of a folder in bytewise order, or the path itself if it is not a folder. The path need not exist.
std::vector<std::string> files_of(const std::string& path, std::string_view key) {
  std::error_code status;
  if (!fs::is_directory(path, status)) {
    io::require_content(path);
    return {path};
  }
  std::vector<std::string> names;
  for (auto it = fs::directory_iterator(path, status); !status && it != fs::directory_iterator();
       it.increment(status)) {
    auto name = it->path().filename().string();
    if (name.starts_with('.')) continue;
    io::require_content(it->path().string());
    std::error_code kind;
    if (it->is_directory(kind))
      base::fail(base::ExitCode::deck,
                 "'{}': the folder holds '{}', which is not a file; a folder of text is read "
                 "without its subfolders: move it, or give one of them as {}",
                 path, base::quotable(name), key);
    if (!it->is_regular_file(kind))
      base::fail(base::ExitCode::deck,
                 "'{}': the folder holds '{}', which is a FIFO, a socket or a device; a folder of text has regular "
                 "files: move it elsewhere, or give another folder as {}",
                 path, base::quotable(name), key);
    names.push_back(std::move(name));
  }
  if (status) {
    base::fail(base::ExitCode::failed, "'{}': cannot list the folder: {}", path, status.message());
  }
  std::sort(names.begin(), names.end());  // char_traits compares bytes as unsigned
  for (auto& name : names) name = (fs::path(path) / name).string();
  return names;
}

const deck::DataConfig& require_bytes_fit(const deck::DataConfig& config, std::int64_t vocab) {
  if (vocab < kByteValues) {
    base::fail(base::ExitCode::deck,
               "data.kind = bytes needs model.vocab >= 256 (every byte is a token), but "
               "model.vocab = {}",
               vocab);
  }
  return config;
}

}  // namespace

BytesDataset::Parts BytesDataset::find_parts(const std::string& path, std::string_view key) {
  Parts parts;
  for (const auto& name : files_of(path, key)) {
    const std::int64_t size = io::InputFile(name).size();
    if (size > 0)
      parts.list.push_back({name, parts.length, size});
    else
      ++parts.empty;
    parts.length += size;
  }
  return parts;
}

BytesDataset::Parts BytesDataset::parts_of(const std::string& listing) {
  Parts parts;
  std::istringstream in(listing);
  std::string size, name;
  while (std::getline(in, size, '\0') && std::getline(in, name, '\0')) {
    if (name.empty()) {
      parts.empty = std::stoll(size);
      continue;
    }
    parts.list.push_back({name, parts.length, std::stoll(size)});
    parts.length += parts.list.back().size;
  }
  return parts;
}

std::string BytesDataset::listing() const {
  std::string text;
  for (const File& part : parts_) text += std::to_string(part.size) + '\0' + part.path + '\0';
  if (empty_ > 0) text += std::to_string(empty_) + '\0' + '\0';  // how many files; they have no name
  return text;
}

BytesDataset::BytesDataset(const deck::DataConfig& config, std::int64_t seq, std::int64_t vocab, Part part,
                           const std::string& listing)
    : BytesDataset(config, seq, vocab, part,
                   listing.empty() ? find_parts(require_bytes_fit(config, vocab).path, path_key(config, part))
                                   : parts_of(listing)) {}

BytesDataset::BytesDataset(const deck::DataConfig& config, std::int64_t seq, std::int64_t vocab, Part part, Parts parts)
    : StreamDataset(config, seq, vocab, part, parts.length),
      path_(config.path),
      key_(path_key(config, part)),
      parts_(std::move(parts.list)),
      empty_(parts.empty) {}

std::string BytesDataset::description() const {
  const std::int64_t files = static_cast<std::int64_t>(parts_.size()) + empty_;
  return fmt::format("bytes of '{}': {} bytes in {}{}, {}", path_, length(), base::count(files, "file", "files"),
                     empty_ > 0 ? fmt::format(" ({} empty)", empty_) : "", samples_text());
}

void BytesDataset::read_bytes(std::span<std::byte> out, std::int64_t first) const {
  // The part that holds the byte `first`: the last part that does not begin after this byte.
  auto part = std::upper_bound(parts_.begin(), parts_.end(), first,
                               [](std::int64_t at, const File& p) { return at < p.first; }) -
              1;
  while (!out.empty()) {
    const std::int64_t offset = first - part->first;
    const auto count = std::min(out.size(), static_cast<std::size_t>(part->size - offset));
    read_part(static_cast<std::size_t>(part - parts_.begin()), out.first(count), offset);
    out = out.subspan(count);
    first += static_cast<std::int64_t>(count);
    ++part;
  }
}

void BytesDataset::read_part(std::size_t part, std::span<std::byte> out, std::int64_t offset) const {
  const auto open = [&] {
    io::InputFile file(parts_[part].path);
    if (file.size() != parts_[part].size)
      base::fail(base::ExitCode::failed,
                 "'{}': has {} bytes, and had {} when the run began; files of {} must not change, and must be the same "
                 "on every "
                 "node",
                 file.path(), file.size(), parts_[part].size, key_);
    return file;
  };
  if (parts_.size() > kKeptOpen) return open().read(out, offset);
  const std::lock_guard lock(mutex_);
  auto found = open_.find(part);
  if (found == open_.end()) found = open_.emplace(part, open()).first;
  found->second.read(out, offset);
}

void BytesDataset::read_tokens(std::span<std::int32_t> out, std::int64_t first) const {
  std::vector<std::byte> bytes(out.size());
  read_bytes(bytes, first);
  std::transform(bytes.begin(), bytes.end(), out.begin(), [](std::byte b) { return std::to_integer<std::int32_t>(b); });
}

Inspection BytesDataset::inspect() const {
  const auto read = [this](std::uint64_t offset, std::span<std::byte> out) {
    read_bytes(out, static_cast<std::int64_t>(offset));
  };
  return {io::fingerprint_of(static_cast<std::uint64_t>(length()), read, {1, samples(), {}}), {}};
}

std::vector<std::uint64_t> BytesDataset::histogram(const GoesOn& goes_on) const {
  std::vector<std::uint64_t> counts(static_cast<std::size_t>(vocab()));
  std::vector<std::byte> bytes;
  for_counted(countable(), goes_on, [&](std::int64_t first, std::int64_t count) {
    bytes.resize(static_cast<std::size_t>(count));
    read_bytes(bytes, first);
    for (const auto b : bytes) ++counts[std::to_integer<std::size_t>(b)];
  });
  return counts;
}

}  // namespace shard8::data
