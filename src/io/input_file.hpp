// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace shard8::io {

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
