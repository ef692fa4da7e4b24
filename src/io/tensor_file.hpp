// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/box.hpp"
#include "io/io_thread.hpp"

namespace shard8::io {

/// Named tensors in a file, read box by box. Values stay in the file. Any thread may call any function. Errors are
/// Error(failed), with the file, the tensor, what was found and what is needed.
class TensorFile {
 public:
  virtual ~TensorFile() = default;
  TensorFile(const TensorFile&) = delete;
  TensorFile& operator=(const TensorFile&) = delete;

  /// The file as the deck names it, for messages.
  const std::string& spec() const { return spec_; }

  /// The names of all tensors, in bytewise order.
  std::vector<std::string> names() const;
  bool contains(std::string_view name) const;

  /// The shape as stored. An unknown name is an error that shows the nearest name.
  const std::vector<std::int64_t>& shape(std::string_view name) const;

  /// Reads a box and converts it to fp32; FP64 and wide integers are rounded to nearest even. Element (r, c) of the
  /// box, counted from the box's first row and column, goes to out[r·row_stride + c]. Only what the box needs is read
  /// (and, in .safetensors files, bytes between its short rows). An empty box reads nothing. Errors: an unknown name, a
  /// box outside the tensor, a tensor of three or more dimensions, a type that has no fp32 value, a row_stride below
  /// box.cols.
  void read_box(std::string_view name, const Box& box, float* out, std::int64_t row_stride) const;

 protected:
  explicit TensorFile(std::string spec) : spec_(std::move(spec)) {}

  /// Adds a tensor. Only the constructors of the formats call this.
  void add(std::string name, std::vector<std::int64_t> shape);

 private:
  /// Reads a box that lies inside the tensor and is not empty.
  virtual void read_checked(const std::string& name, const Box& box, float* out, std::int64_t row_stride) const = 0;

  using Shapes = std::map<std::string, std::vector<std::int64_t>, std::less<>>;
  Shapes::const_iterator find(std::string_view name) const;

  std::string spec_;
  Shapes shapes_;
};

/// Opens a file. Its name says its format:
///   folder                     model.safetensors.index.json in it, or else model.safetensors
///   file.safetensors           F64, F32, F16, BF16 (names() lists tensors of other types, reading them is an error)
///   x.json                     the index of a checkpoint in several .safetensors files of the same folder
///   file.h5:/group, file.h5    HDF5, and so is every other name: the datasets of that group, or of the root group, of
///                              any integer or float type
/// `io` must outlive it. Error(deck) if there is no such file, Error(failed) if it is malformed.
std::unique_ptr<TensorFile> open_tensor_file(IoThread& io, const std::string& spec);

}  // namespace shard8::io
