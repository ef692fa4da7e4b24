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

  /// What is really read, for messages and records: the file, the index of several files, an HDF5 file with its group,
  /// or the folder of a checkpoint. Where a folder was given, it is the one that was found in it.
  const std::string& spec() const { return spec_; }

  /// What the user should know about how the file was chosen, one text for each thing. Mostly empty.
  const std::vector<std::string>& notes() const { return notes_; }

  /// The names of all tensors, in bytewise order.
  std::vector<std::string> names() const;
  bool contains(std::string_view name) const;

  /// The shape as stored. An unknown name is an error that shows the nearest name.
  const std::vector<std::int64_t>& shape(std::string_view name) const;

  /// Why no read of the tensor can succeed, in words that follow "tensor 'name' ": a dtype without fp32 values, a
  /// missing HDF5 filter. Empty if nothing is known that prevents reading. An unknown name is an error as for shape().
  const std::string& unreadable(std::string_view name) const;

  /// Reads a box and converts it to fp32; FP64 is rounded to nearest even. Element (r, c) of the
  /// box, counted from the box's first row and column, goes to out[r·row_stride + c]. Only what the box needs is read
  /// (and, in .safetensors files, bytes between its short rows). An empty box reads nothing. Errors: an unknown name, a
  /// box outside the tensor, a tensor of three or more dimensions, a tensor that is unreadable(), a row_stride below
  /// box.cols.
  void read_box(std::string_view name, const Box& box, float* out, std::int64_t row_stride) const;

  /// The element (row, col) of a matrix, or (row, 0) of a vector, as the file has it, not rounded to fp32, which does
  /// not hold every value of FP64. Throws the errors of read_box().
  double stored_value(std::string_view name, std::int64_t row, std::int64_t col) const;

 protected:
  explicit TensorFile(std::string spec, std::vector<std::string> notes = {})
      : spec_(std::move(spec)), notes_(std::move(notes)) {}

  /// Adds a tensor. Only the constructors of the formats call this.
  void add(std::string name, std::vector<std::int64_t> shape, std::string unreadable = {});

  /// Reads the one element of a box, without rounding, under the conditions of read_checked(). The function of the base
  /// class reads it as fp32; formats that store FP64 have a function of their own.
  virtual double read_one(const std::string& name, const Box& box) const;

 private:
  /// Reads a box that lies inside a readable tensor and is not empty.
  virtual void read_checked(const std::string& name, const Box& box, float* out, std::int64_t row_stride) const = 0;

  struct Tensor {
    std::vector<std::int64_t> shape;
    std::string unreadable;
  };
  using Tensors = std::map<std::string, Tensor, std::less<>>;
  Tensors::const_iterator find(std::string_view name) const;

  std::string spec_;
  std::vector<std::string> notes_;
  Tensors tensors_;
};

/// Opens a file. The file's name says its format:
///   folder                     model.safetensors in it, or else model.safetensors.index.json; a note if both are there
///   file.safetensors           F64, F32, F16, BF16; tensors of other dtypes are unreadable()
///   x.json                     the index of a checkpoint in several .safetensors files of the same folder
///   file.h5:/group, file.h5    HDF5, and so is every other name: the datasets of that group, or of the root group, of
///                              any float type, or of integers that are the bits of floats, as an attribute `dtype` of
///                              the dataset says (fp32, bf16, fp16, fp64); others are unreadable()
/// `io` must outlive the result. Error(deck) if there is no such file or it stands for content that is elsewhere, see
/// require_content(). Error(failed) if it is malformed.
std::unique_ptr<TensorFile> open_tensor_file(IoThread& io, const std::string& spec);

}  // namespace shard8::io
