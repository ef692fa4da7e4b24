// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/box.hpp"
#include "io/io_thread.hpp"

namespace shard8::io {

/// A dataset of integers in an HDF5 file, "file.h5:/dataset", read piece by piece. Any thread may call any function.
class TokenFile {
 public:
  /// Opens the dataset. `io` must outlive the object. Error(deck) if `spec` names no dataset, there is no such file or
  /// dataset, or values or what reads them are missing: see h5_require_filters() and h5_require_allocated().
  /// Error(failed) if the file is not HDF5 or the dataset is not of an integer type.
  TokenFile(IoThread& io, std::string spec);
  ~TokenFile();
  TokenFile(const TokenFile&) = delete;
  TokenFile& operator=(const TokenFile&) = delete;

  const std::string& spec() const { return spec_; }
  const std::vector<std::int64_t>& shape() const { return shape_; }
  std::int64_t elements() const;

  /// Reads the elements whose indices are in the ranges, one range for each dimension, in row-major order. `out` must
  /// have at least as many elements as the product of the ranges' counts. Error(failed) for ranges outside the dataset
  /// and for a value that no int32 holds.
  void read(std::span<std::int32_t> out, std::span<const Range> ranges) const;

  /// Reads the elements [first, first + out.size()), counted in row-major order. Errors are those of read().
  void read_flat(std::span<std::int32_t> out, std::int64_t first) const;

  /// The value that HDF5 gives elements that were never written; nothing if the file defines none, or none that an
  /// int32 holds.
  std::optional<std::int32_t> fill_value() const { return fill_value_; }

 private:
  struct Handles;

  void open();
  void read_here(std::span<std::int32_t> out, std::span<const Range> ranges) const;

  IoThread& io_;
  std::string spec_;
  std::vector<std::int64_t> shape_;
  std::optional<std::int32_t> fill_value_;
  bool narrow_ = false;  // an int32 holds every value of the file's type
  std::unique_ptr<Handles> handles_;
};

}  // namespace shard8::io
