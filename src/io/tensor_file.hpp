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

/// Named tensors in a file, read box by box; nothing is held in memory. Calls are safe from any
/// thread. Errors are Error(failed) with file, tensor, what was found and what is needed.
class TensorFile {
 public:
  virtual ~TensorFile() = default;
  TensorFile(const TensorFile&) = delete;
  TensorFile& operator=(const TensorFile&) = delete;

  /// What was opened, for messages.
  const std::string& spec() const { return spec_; }

  /// In bytewise order.
  std::vector<std::string> names() const;
  bool contains(std::string_view name) const;

  /// As stored. An unknown name is an error that names what is like it.
  const std::vector<std::int64_t>& shape(std::string_view name) const;

  /// Reads a box, converted to fp32 (rounded to nearest even from FP64 and wide integers):
  /// element (r, c) of the box goes to out[r·row_stride + c]; row_stride >= box.cols. Only what
  /// the box needs is read. A box outside the tensor and a tensor of three or more dimensions are
  /// errors; an empty box reads nothing.
  void read_box(std::string_view name, const Box& box, float* out, std::int64_t row_stride) const;

 protected:
  explicit TensorFile(std::string spec) : spec_(std::move(spec)) {}

  /// For the constructors of the formats.
  void add(std::string name, std::vector<std::int64_t> shape);

 private:
  /// A box that lies inside the tensor and is not empty.
  virtual void read_checked(const std::string& name, const Box& box, float* out, std::int64_t row_stride) const = 0;

  using Shapes = std::map<std::string, std::vector<std::int64_t>, std::less<>>;
  Shapes::const_iterator find(std::string_view name) const;

  std::string spec_;
  Shapes shapes_;
};

/// Opens by what the text says:
///   file.h5:/group             every dataset of that group, of any integer or float type
///   file.safetensors           F64, F32, F16, BF16 (others are listed, and an error when read)
///   x.safetensors.index.json   a checkpoint in several .safetensors files beside it
///   folder                     that index, or else model.safetensors, in it
/// Error(deck) when there is no such file, Error(failed) when it is malformed.
std::unique_ptr<TensorFile> open_tensor_file(IoThread& io, const std::string& spec);

}  // namespace shard8::io
