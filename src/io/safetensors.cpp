// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "io/tensor_formats.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <vector>

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "io/file.hpp"

namespace shard8::io {
namespace {

template <class T>
T load(const std::byte* in, std::int64_t i) {
  T value;
  std::memcpy(&value, in + i * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
  return value;
}

/// Decodes IEEE binary16, exactly: fp32 has all of its values. Subnormals are m · 2^-24.
float from_half(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fu;
  const std::uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  const std::uint32_t wide = exponent == 0x1fu ? 0xffu : exponent + 112u;  // bias 15 to 127
  return std::bit_cast<float>(sign | (wide << 23) | (mantissa << 13));
}

// A box takes a piece of each row. Pieces of at least kLongRow bytes are read one by one. Shorter pieces are read
// together with the bytes between them, in blocks of kReadBlock bytes, since bandwidth costs less than many calls.
// Chosen.
constexpr std::int64_t kLongRow = 16 * 1024;
constexpr std::int64_t kReadBlock = 4 * 1024 * 1024;

/// Why tensors of a dtype cannot be read; empty if they can.
std::string why_unreadable(const std::string& dtype) {
  StoredFloat type = StoredFloat::f32;
  if (stored_float_from(dtype, type)) return {};
  const bool fp8 = dtype.starts_with("F8_");
  return fmt::format("has dtype {}; allowed for weights are F16, BF16, F32, F64{}", base::quotable(dtype),
                     fp8 ? ": give a copy in BF16, since shard8 reads no scales of FP8 weights" : "");
}

class SafetensorsFile final : public TensorFile {
 public:
  SafetensorsFile(const std::string& path, std::vector<std::string> notes)
      : TensorFile(path, std::move(notes)), file_(path) {
    for (auto& entry : read_safetensors_header(file_)) {
      add(entry.name, entry.shape, why_unreadable(entry.dtype));
      entries_.emplace(entry.name, std::move(entry));
    }
  }

 private:
  void read_checked(const std::string& name, const Box& box, float* out, std::int64_t row_stride) const override {
    const auto& entry = entries_.at(name);
    StoredFloat type = StoredFloat::f32;
    SHARD8_REQUIRE(stored_float_from(entry.dtype, type), "tensor '{}' of dtype {}", name, entry.dtype);
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
    const std::int64_t rows_at_once = length >= kLongRow ? 1 : std::max<std::int64_t>(1, kReadBlock / pitch);
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

  double read_one(const std::string& name, const Box& box) const override {
    const auto& entry = entries_.at(name);
    if (entry.dtype != "F64") return TensorFile::read_one(name, box);
    const std::int64_t width = entry.shape.size() == 2 ? entry.shape[1] : 1;
    double value = 0;
    const auto bytes = std::as_writable_bytes(std::span(&value, 1));
    file_.read(bytes, entry.first + (box.row0 * width + box.col0) * bytes_of(StoredFloat::f64));
    return value;
  }

  InputFile file_;
  std::map<std::string, SafetensorsEntry> entries_;
};

constexpr std::int64_t kLargestMap = 32 << 20;  // chosen: 100,000 tensors take about 10 MB
constexpr int kDeepestMap = 16;                 // chosen; an index has two levels

class IndexedFiles final : public TensorFile {
 public:
  explicit IndexedFiles(const std::string& path) : TensorFile(path) {
    const auto folder = std::filesystem::path(path).parent_path();
    for (const auto& [name, file] : read_map()) {
      auto& part = parts_[file];
      if (!part) part = open_part(name, folder / file);
      if (!part->contains(name)) {
        base::fail(base::ExitCode::failed,
                   "'{}': says that tensor '{}' is in '{}', but it is not; copy all the files of "
                   "one checkpoint again",
                   spec(), base::quotable(name), part->spec());
      }
      take(name, *part);
    }
    for (const auto& [file, part] : parts_) {
      for (const auto& name : part->names()) {
        const auto home = home_.find(name);
        if (home == home_.end()) {
          take(name, *part);
        } else if (home->second != part.get()) {
          base::fail(base::ExitCode::failed,
                     "'{}': tensor '{}' is in '{}' and in '{}', and no more than one of them can count; copy all the "
                     "files of one checkpoint again, or write them again with each tensor in one file",
                     spec(), base::quotable(name), home->second->spec(), part->spec());
        }
      }
    }
  }

 private:
  /// Opens a file that the index names for a tensor.
  std::unique_ptr<TensorFile> open_part(const std::string& tensor, const std::filesystem::path& path) const {
    std::error_code ignored;
    if (std::filesystem::symlink_status(path, ignored).type() == std::filesystem::file_type::not_found)
      base::fail(base::ExitCode::deck,
                 "'{}': says that tensor '{}' is in '{}', which does not exist; copy or download all the files that "
                 "the index names",
                 spec(), base::quotable(tensor), path.string());
    return open_safetensors(path.string());
  }

  void take(const std::string& name, const TensorFile& part) {
    add(name, part.shape(name), part.unreadable(name));
    home_.emplace(name, &part);
  }

  template <class... Args>
  [[noreturn]] void no_index(fmt::format_string<Args...> format, Args&&... args) const {
    base::fail(base::ExitCode::failed,
               "'{}': not an index of safetensors, which is JSON with \"weight_map\": {{\"tensor\": \"file\"}}: {}",
               spec(), fmt::format(format, std::forward<Args>(args)...));
  }

  nlohmann::json read_json() const {
    const InputFile file(spec());
    if (file.size() > kLargestMap) no_index("it has {} bytes, at most {} are read", file.size(), kLargestMap);
    std::string text(static_cast<std::size_t>(file.size()), '\0');
    file.read(std::as_writable_bytes(std::span(text)), 0);
    using Event = nlohmann::json::parse_event_t;
    std::set<std::string> seen[2];  // keys of the whole index, and keys of the object in it that is being read
    const auto watch = [&](int depth, Event event, const nlohmann::json& value) {
      if (depth > kDeepestMap) no_index("it is nested more than {} deep", kDeepestMap);
      if (event == Event::object_start && depth == 1) seen[1].clear();
      if (event != Event::key || depth < 1 || depth > 2) return true;
      const auto& key = value.get_ref<const std::string&>();
      if (!seen[depth - 1].insert(key).second) no_index("'{}' is there twice", base::quotable(key));
      return true;
    };
    try {
      return nlohmann::json::parse(text, watch);
    } catch (const nlohmann::json::exception& error) {
      no_index("{}", base::text_of_json(error));
    }
  }

  std::map<std::string, std::string> read_map() const {
    const auto index = read_json();
    const auto map = index.is_object() ? index.find("weight_map") : index.end();
    if (!index.is_object() || map == index.end() || !map->is_object()) no_index("it has no object \"weight_map\"");
    std::map<std::string, std::string> out;
    for (const auto& [name, part] : map->items()) {
      if (!part.is_string()) no_index("the file of tensor '{}' is no text", base::quotable(name));
      const auto& file = part.get_ref<const std::string&>();
      const bool plain = file != "." && file != ".." && base::printable(file) == file;
      if (file.empty() || file.find('/') != std::string::npos || !plain) {
        base::fail(base::ExitCode::failed,
                   "'{}': tensor '{}' is said to be in '{}'; needed is the plain name of a file "
                   "beside the index",
                   spec(), base::quotable(name), base::quotable(file));
      }
      out[name] = file;
    }
    return out;
  }

  void read_checked(const std::string& name, const Box& box, float* out, std::int64_t row_stride) const override {
    home_.at(name)->read_box(name, box, out, row_stride);
  }
  double read_one(const std::string& name, const Box& box) const override {
    return home_.at(name)->stored_value(name, box.row0, box.col0);
  }

  std::map<std::string, std::unique_ptr<TensorFile>> parts_;
  std::map<std::string, const TensorFile*> home_;
};

}  // namespace

bool stored_float_from(std::string_view dtype, StoredFloat& out) {
  if (dtype == "F16") {
    out = StoredFloat::f16;
  } else if (dtype == "BF16") {
    out = StoredFloat::bf16;
  } else if (dtype == "F32") {
    out = StoredFloat::f32;
  } else if (dtype == "F64") {
    out = StoredFloat::f64;
  } else {
    return false;
  }
  return true;
}

std::int64_t bytes_of(StoredFloat type) {
  switch (type) {
    case StoredFloat::f16:
    case StoredFloat::bf16:
      return 2;
    case StoredFloat::f32:
      return 4;
    case StoredFloat::f64:
      break;
  }
  return 8;
}

void decode_floats(float* out, const std::byte* in, std::int64_t count, StoredFloat type) {
  switch (type) {
    case StoredFloat::f16:
      for (std::int64_t i = 0; i < count; ++i) out[i] = from_half(load<std::uint16_t>(in, i));
      return;
    case StoredFloat::bf16:
      for (std::int64_t i = 0; i < count; ++i) {
        out[i] = std::bit_cast<float>(static_cast<std::uint32_t>(load<std::uint16_t>(in, i)) << 16);
      }
      return;
    case StoredFloat::f32:
      if (count > 0) std::memcpy(out, in, static_cast<std::size_t>(count) * sizeof(float));
      return;
    case StoredFloat::f64:
      for (std::int64_t i = 0; i < count; ++i) out[i] = static_cast<float>(load<double>(in, i));
      return;
  }
}

std::unique_ptr<TensorFile> open_safetensors(const std::string& path, std::vector<std::string> notes) {
  require_content(path);
  return std::make_unique<SafetensorsFile>(path, std::move(notes));
}

std::unique_ptr<TensorFile> open_safetensors_index(const std::string& path) {
  require_content(path);
  return std::make_unique<IndexedFiles>(path);
}

}  // namespace shard8::io
