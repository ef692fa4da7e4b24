// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "io/raw_file.hpp"

namespace shard8::io {

/// A tensor of a .safetensors file to be written.
struct SafetensorsTensor {
  std::string name;
  std::string dtype;  ///< as safetensors calls it: "F32", "BF16"
  std::vector<std::int64_t> shape;
  std::uint64_t bytes = 0;
};

/// Writes a .safetensors file (the format is in io/tensor_formats.hpp) piece by piece, as PATH.tmp, which commit()
/// renames. Unless commit() has returned, the destructor removes PATH.tmp. Errors are those of RawFile for writing.
class SafetensorsWriter {
 public:
  /// Makes PATH.tmp with room for all tensors and writes the header. What is left of an earlier PATH.tmp is removed.
  /// "__metadata__" says {"format": "pt"}, without which Transformers refuses a file.
  SafetensorsWriter(std::string path, const std::vector<SafetensorsTensor>& tensors);
  ~SafetensorsWriter();
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;

  /// Appends bytes: the values of the first tensor, row-major, then those of the second, and so on.
  void write(std::span<const std::byte> bytes);

  /// Makes what was written survive a crash; the name is still PATH.tmp. Error(failed) if bytes are missing.
  void finish();
  /// Renames PATH.tmp to PATH. After finish(). The caller synchronises the folder (io::sync_folder).
  void commit();

  const std::string& path() const { return path_; }
  /// The length of the file.
  std::uint64_t length() const { return end_; }

 private:
  std::string path_;
  RawFile file_;
  std::uint64_t next_ = 0, end_ = 0;
  bool committed_ = false;
};

}  // namespace shard8::io
