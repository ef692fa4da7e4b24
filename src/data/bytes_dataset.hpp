// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <optional>

#include "data/stream_dataset.hpp"
#include "io/input_file.hpp"

namespace shard8::data {

/// Text, a byte a token: a file, or the files of a folder one after the other in bytewise order of
/// their names. Names that begin with a dot are left out; a folder in the folder is an error, not
/// a choice. The sizes found on opening must not change.
class BytesDataset final : public StreamDataset {
 public:
  /// Error(deck) when vocab < 256, or there is nothing to read at config.path.
  BytesDataset(const deck::DataConfig& config, std::int64_t seq, std::int64_t vocab);

  std::string description() const override;
  std::vector<std::uint64_t> histogram() const override;

 private:
  struct Part {
    std::string path;
    std::int64_t first = 0;  ///< its first byte in the stream
    std::int64_t size = 0;
    std::optional<io::InputFile> file;  ///< kept open while files are few
  };
  struct Parts {
    std::vector<Part> list;
    std::int64_t length = 0;
  };
  static Parts find_parts(const std::string& path);

  BytesDataset(const deck::DataConfig& config, std::int64_t seq, std::int64_t vocab, Parts parts);

  void read_tokens(std::span<std::int32_t> out, std::int64_t first) const override;
  void read_bytes(std::span<std::byte> out, std::int64_t first) const;

  std::string path_;
  std::vector<Part> parts_;
};

}  // namespace shard8::data
