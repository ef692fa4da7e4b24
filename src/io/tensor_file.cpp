// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "io/tensor_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "base/error.hpp"
#include "base/text.hpp"
#include "io/file.hpp"
#include "io/tensor_formats.hpp"

namespace shard8::io {

namespace {

struct Matrix {
  std::int64_t rows, cols;
};

Matrix as_matrix(const std::vector<std::int64_t>& shape) {
  if (shape.empty()) return {1, 1};
  return {shape[0], shape.size() == 1 ? 1 : shape[1]};
}

bool inside(std::int64_t first, std::int64_t count, std::int64_t size) {
  return first >= 0 && count >= 0 && first <= size && count <= size - first;
}

/// The length of the longest common ending of two names, which a missing or extra prefix leaves unchanged.
std::size_t common_tail(std::string_view a, std::string_view b) {
  std::size_t n = 0;
  while (n < a.size() && n < b.size() && a[a.size() - 1 - n] == b[b.size() - 1 - n]) ++n;
  return n;
}

}  // namespace

std::vector<std::string> TensorFile::names() const {
  std::vector<std::string> out;
  out.reserve(tensors_.size());
  for (const auto& [name, tensor] : tensors_) out.push_back(name);
  return out;
}

bool TensorFile::contains(std::string_view name) const { return tensors_.find(name) != tensors_.end(); }

TensorFile::Tensors::const_iterator TensorFile::find(std::string_view name) const {
  const auto found = tensors_.find(name);
  if (found != tensors_.end()) return found;
  std::string nearest;
  std::size_t best = 0;
  for (const auto& [other, tensor] : tensors_) {
    const auto tail = common_tail(name, other);
    if (tail > best) {
      best = tail;
      nearest = fmt::format(", the nearest is '{}'", base::quotable(other));
    }
  }
  base::fail(base::ExitCode::failed,
             "'{}': has no tensor '{}' (of its {} names{}); is it a checkpoint of this "
             "architecture, under Hugging Face's names?",
             spec_, name, tensors_.size(), nearest);
}

const std::vector<std::int64_t>& TensorFile::shape(std::string_view name) const { return find(name)->second.shape; }

const std::string& TensorFile::unreadable(std::string_view name) const { return find(name)->second.unreadable; }

void TensorFile::read_box(std::string_view name, const Box& box, float* out, std::int64_t row_stride) const {
  const auto& [full_name, tensor] = *find(name);
  const auto& shape = tensor.shape;
  if (shape.size() > 2) {
    base::fail(base::ExitCode::failed,
               "'{}': tensor '{}' has shape ({}); boxes are read from tensors of at most two "
               "dimensions",
               spec_, name, fmt::join(shape, ", "));
  }
  const auto [rows, cols] = as_matrix(shape);
  if (!inside(box.row0, box.rows, rows) || !inside(box.col0, box.cols, cols)) {
    base::fail(base::ExitCode::failed,
               "'{}': tensor '{}' is {} x {} (shape ({})), but {} rows from {} and {} columns from "
               "{} are needed; do the model's sizes in the deck belong to this file?",
               spec_, name, rows, cols, fmt::join(shape, ", "), box.rows, box.row0, box.cols, box.col0);
  }
  if (box.rows == 0 || box.cols == 0) return;
  SHARD8_REQUIRE(row_stride >= box.cols, "tensor '{}': row stride {}, columns {}", name, row_stride, box.cols);
  if (!tensor.unreadable.empty())
    base::fail(base::ExitCode::failed, "'{}': tensor '{}' {}", spec_, base::quotable(full_name), tensor.unreadable);
  read_checked(full_name, box, out, row_stride);
}

double TensorFile::stored_value(std::string_view name, std::int64_t row, std::int64_t col) const {
  const Box box{row, 1, col, 1};
  float rounded = 0;
  read_box(name, box, &rounded, 1);  // checks name, box and dtype
  return read_one(find(name)->first, box);
}

double TensorFile::read_one(const std::string& name, const Box& box) const {
  float value = 0;
  read_checked(name, box, &value, 1);
  return value;
}

void TensorFile::add(std::string name, std::vector<std::int64_t> shape, std::string unreadable) {
  tensors_.emplace(std::move(name), Tensor{std::move(shape), std::move(unreadable)});
}

std::unique_ptr<TensorFile> open_tensor_file(IoThread& io, const std::string& spec) {
  namespace fs = std::filesystem;
  std::error_code status;
  if (fs::is_directory(spec, status)) {
    const fs::path folder(spec);
    const std::string single = (folder / "model.safetensors").string();
    const std::string index = (folder / "model.safetensors.index.json").string();
    require_content(single);
    const bool both = fs::exists(single, status) && fs::exists(index, status);
    if (both)  // Transformers looks for the file first, too
      return open_safetensors(single, {fmt::format("'{}': model.safetensors is read, and model.safetensors.index.json "
                                                   "beside it is not; to read that one, name it",
                                                   spec)});
    if (fs::exists(single, status)) return open_safetensors(single);
    require_content(index);
    if (fs::exists(index, status)) return open_safetensors_index(index);
    base::fail(base::ExitCode::deck,
               "'{}': the folder holds neither model.safetensors.index.json nor "
               "model.safetensors; give the file itself, or copy the index of its files as well",
               spec);
  }
  if (spec.ends_with(".safetensors")) return open_safetensors(spec);
  if (spec.ends_with(".json")) return open_safetensors_index(spec);
  return open_hdf5_tensors(io, spec);
}

}  // namespace shard8::io
