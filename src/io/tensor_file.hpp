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

/// Named tensors in a file, read box by box. No values are held in memory. Any thread may call any function. Errors
/// are Error(failed) and name the file, the tensor, what was found and what is needed.
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
  /// box goes to out[r·row_stride + c]; row_stride must be at least box.cols. Parts of the file that the box does not
  /// need are not read. An empty box reads nothing. A box outside the tensor and a tensor of three or more dimensions
  /// are errors.
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

/// Opens a file whose format follows from its name:
///   file.h5:/group             every dataset of that group, of any integer or float type
///   file.safetensors           F64, F32, F16, BF16 (others are listed, and an error when read)
///   x.safetensors.index.json   a checkpoint in several .safetensors files of the same folder
///   folder                     model.safetensors.index.json in it, or else model.safetensors
/// Error(deck) if there is no such file, Error(failed) if it is malformed.
std::unique_ptr<TensorFile> open_tensor_file(IoThread& io, const std::string& spec);

}  // namespace shard8::io
