// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/plain_file.hpp"

namespace shard8::io {

/// Writes a file so that after a crash at any moment `path` holds either its old content or all of `bytes`. The
/// function writes path.tmp, calls fsync, renames path.tmp, and calls fsync for the folder. Error(environment) with the
/// path, the operation, the system's reason and what is needed; path.tmp is then removed. After an error of the last
/// step `path` already holds `bytes`.
void write_durably(const std::string& path, std::string_view bytes);
/// Takes the next bytes of a file.
using Sink = std::function<void(std::string_view bytes)>;
/// As write_durably() of bytes, for a file that need not be in memory: `produce` gives its bytes to `sink`, piece by
/// piece. If `produce` throws, the file keeps its old content.
void write_durably(const std::string& path, const std::function<void(const Sink& sink)>& produce);

/// Calls `read` with the stream of a file. Error(environment) if it cannot be opened, or `read` has met an error of the
/// file.
void read_stream(const std::string& path, const std::function<void(std::istream& in)>& read);

using base::temporary_of;

/// Makes a rename or a new file in this folder survive a crash (fsync). "" is the working directory. Does nothing on a
/// file system that has no fsync for folders. Error(environment) if the folder cannot be opened or fsync fails.
void sync_folder(const std::string& folder);

/// The bytes of a small file; nothing if there is no such file. Error(environment) if it is there and cannot be read to
/// its end.
std::optional<std::string> text_if_there(const std::string& path);
/// As text_if_there(), but an empty text if there is no such file.
std::string text_of(const std::string& path);

/// Does nothing unless a path stands for content that is not on this machine. Error(deck), with what to do, if the path
/// is a link and its target is missing, or a file that Git LFS left in place of the content.
void require_content(const std::string& path);

/// A regular file that is open for reading. Several threads may read it at once.
class InputFile {
 public:
  /// Error(deck) if there is no such file or it is not a regular file, Error(failed) if it cannot be opened.
  explicit InputFile(std::string path);
  ~InputFile();
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&& other) noexcept;

  const std::string& path() const { return path_; }
  /// The bytes that the file had when it was opened.
  std::int64_t size() const { return size_; }

  /// Fills `out` with the bytes from `offset` on. Error(failed) if the file ends before `out` is full, or cannot be
  /// read.
  void read(std::span<std::byte> out, std::int64_t offset) const;

 private:
  std::string path_;
  int descriptor_ = -1;
  std::int64_t size_ = 0;
};

}  // namespace shard8::io
