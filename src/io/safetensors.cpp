// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "io/safetensors.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <span>
#include <vector>

#include "base/error.hpp"
#include "io/input_file.hpp"
#include "io/safetensors_header.hpp"
#include "io/stored_float.hpp"

namespace shard8::io {

namespace {

// Rows' pieces at least this long are read one by one; of shorter ones the bytes between them are
// read too, in pieces of kBlock: bandwidth is cheaper than so many calls.
constexpr std::int64_t kLongRow = 16 * 1024;
constexpr std::int64_t kBlock = 4 * 1024 * 1024;

class SafetensorsFile final : public TensorFile {
 public:
  explicit SafetensorsFile(const std::string& path) : TensorFile(path), file_(path) {
    for (auto& entry : read_safetensors_header(file_)) {
      add(entry.name, entry.shape);
      entries_.emplace(entry.name, std::move(entry));
    }
  }

 private:
  void read_checked(const std::string& name, const Box& box, float* out, std::int64_t row_stride) const override {
    const auto& entry = entries_.at(name);
    StoredFloat type = StoredFloat::f32;
    if (!stored_float_from(entry.dtype, type)) {
      base::fail(base::ExitCode::failed, "'{}': tensor '{}' has dtype {}; allowed for weights are F16, BF16, F32, F64",
                 spec(), name, entry.dtype);
    }
    const auto size = bytes_of(type);
    const std::int64_t width = entry.shape.size() == 2 ? entry.shape[1] : 1;
    const std::int64_t pitch = width * size;
    const std::int64_t length = box.cols * size;
    const std::int64_t first = entry.first + box.row0 * pitch + box.col0 * size;

    if (type == StoredFloat::f32 && length == pitch && row_stride == box.cols) {
      const auto count = static_cast<std::size_t>(box.rows * box.cols);
      file_.read(std::as_writable_bytes(std::span(out, count)), first);
      return;
    }
    const std::int64_t rows_at_once = length >= kLongRow ? 1 : std::max<std::int64_t>(1, kBlock / pitch);
    std::vector<std::byte> buffer;
    for (std::int64_t row = 0; row < box.rows; row += rows_at_once) {
      const auto rows = std::min(rows_at_once, box.rows - row);
      buffer.resize(static_cast<std::size_t>((rows - 1) * pitch + length));
      file_.read(buffer, first + row * pitch);
      for (std::int64_t r = 0; r < rows; ++r) {
        decode_floats(out + (row + r) * row_stride, buffer.data() + r * pitch, box.cols, type);
      }
    }
  }

  InputFile file_;
  std::map<std::string, SafetensorsEntry> entries_;
};

}  // namespace

std::unique_ptr<TensorFile> open_safetensors(const std::string& path) {
  return std::make_unique<SafetensorsFile>(path);
}

}  // namespace shard8::io
