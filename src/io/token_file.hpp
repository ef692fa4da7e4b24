// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "io/io_thread.hpp"

namespace shard8::io {

/// Indices start, start + stride, ... (count of them) of one dimension.
struct Range {
  std::int64_t start = 0;
  std::int64_t count = 0;
  std::int64_t stride = 1;
};

/// A dataset of integers in an HDF5 file, "file.h5:/dataset", read piece by piece. Any thread may call any function.
class TokenFile {
 public:
  /// Error(deck) if the text names no dataset, or there is no such file or dataset. Error(failed) if the file is not
  /// HDF5 or the dataset is not of an integer type.
  TokenFile(IoThread& io, std::string spec);
  ~TokenFile();
  TokenFile(const TokenFile&) = delete;
  TokenFile& operator=(const TokenFile&) = delete;

  const std::string& spec() const { return spec_; }
  const std::vector<std::int64_t>& shape() const { return shape_; }
  std::int64_t elements() const;

  /// Reads the elements that lie in all ranges, one range for each dimension, in row-major order. `out` must hold the
  /// product of their counts. Ranges outside the dataset and values that no int32 holds are Error(failed).
  void read(std::span<std::int32_t> out, std::span<const Range> ranges) const;

  /// Reads all elements in order and calls visit(piece, index of its first element) for each piece. A piece consists of
  /// whole slices of dimension 0 and has about 4 Mi elements.
  void for_each_piece(const std::function<void(std::span<const std::int32_t>, std::int64_t)>& visit) const;

 private:
  struct Handles;

  void open();
  void read_here(std::span<std::int32_t> out, std::span<const Range> ranges) const;

  IoThread& io_;
  std::string spec_;
  std::vector<std::int64_t> shape_;
  bool narrow_ = false;  // every value of its type is an int32
  std::unique_ptr<Handles> handles_;
};

}  // namespace shard8::io
