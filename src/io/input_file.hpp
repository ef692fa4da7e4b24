// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace shard8::io {

/// A plain file opened for reading, at any place and from any thread.
class InputFile {
 public:
  /// Error(deck) when there is no such file, Error(failed) when it cannot be opened.
  explicit InputFile(std::string path);
  ~InputFile();
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&& other) noexcept;

  const std::string& path() const { return path_; }
  /// Bytes, when it was opened.
  std::int64_t size() const { return size_; }

  /// Fills `out` from byte `offset` on. Error(failed) when the file ends before, or on a fault of
  /// the medium.
  void read(std::span<std::byte> out, std::int64_t offset) const;

 private:
  std::string path_;
  int descriptor_ = -1;
  std::int64_t size_ = 0;
};

}  // namespace shard8::io
