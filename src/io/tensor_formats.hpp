// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/file.hpp"
#include "io/io_thread.hpp"
#include "io/raw_file.hpp"
#include "io/tensor_file.hpp"

/// The formats behind open_tensor_file(), and the writer of .safetensors files.
namespace shard8::io {

/// Opens the datasets that are directly in a group, "file.h5:/group", or in the root group, "file.h5".
std::unique_ptr<TensorFile> open_hdf5_tensors(IoThread& io, const std::string& spec);

// The .safetensors format (github.com/huggingface/safetensors, "Format"): the header's length as a 64-bit little-endian
// integer, the header in JSON, {"name": {"dtype", "shape", "data_offsets"}, ...}, then the bytes of all tensors,
// row-major, without overlaps or holes. Opening a file that breaks these rules throws Error(failed).

/// Opens one .safetensors file. `notes` are those of the result.
std::unique_ptr<TensorFile> open_safetensors(const std::string& path, std::vector<std::string> notes = {});

/// Opens a checkpoint in several files. `path` is its .index.json, with "weight_map": {name: file}. The files are in
/// the folder of the index and stay open. Tensors of these files that the index does not list are there, too, as for
/// Transformers.
std::unique_ptr<TensorFile> open_safetensors_index(const std::string& path);

/// A tensor as the header of a .safetensors file describes it, checked against the file.
struct SafetensorsEntry {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::int64_t first = 0;  ///< offset of its first byte in the file
  std::int64_t bytes = 0;
};

/// Reads the whole header and checks it: length, JSON, depth, duplicate names, shapes, dtypes against sizes, offsets
/// against the file, overlaps and holes. Error(failed) with the file and the tensor.
std::vector<SafetensorsEntry> read_safetensors_header(const InputFile& file);

/// Floating-point types of files that can be decoded to fp32.
enum class StoredFloat { f16, bf16, f32, f64 };

/// Sets `out` to the type that safetensors calls `dtype`. False if there is no such type.
bool stored_float_from(std::string_view dtype, StoredFloat& out);

/// Bytes of one value.
std::int64_t bytes_of(StoredFloat type);

/// Decodes `count` little-endian values to fp32. FP64 is rounded to nearest even. `in` need not be aligned.
void decode_floats(float* out, const std::byte* in, std::int64_t count, StoredFloat type);

}  // namespace shard8::io

namespace shard8::io {

/// A tensor of a .safetensors file to be written.
struct SafetensorsTensor {
  std::string name;
  std::string dtype;  ///< as safetensors calls it: "F32", "BF16"
  std::vector<std::int64_t> shape;
  std::uint64_t bytes = 0;
};

/// Writes a .safetensors file, in the format described above, piece by piece, as PATH.tmp, which commit() renames.
/// Unless commit() has returned, the destructor removes PATH.tmp. Errors are those of RawFile for writing.
class SafetensorsWriter {
 public:
  /// Makes PATH.tmp with room for all tensors and writes the header. What is left of an earlier PATH.tmp is removed.
  /// "__metadata__" says {"format": "pt"}, without which Transformers refuses a file.
  SafetensorsWriter(std::string path, const std::vector<SafetensorsTensor>& tensors);
  ~SafetensorsWriter();
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;

  /// Appends bytes: the values of the first tensor, row-major, then those of the second, and so on.
  void write(std::span<const std::byte> bytes);

  /// Makes what was written survive a crash; the name is still PATH.tmp. Error(failed) if bytes are missing.
  void finish();
  /// Renames PATH.tmp to PATH. To be called after finish(). The caller synchronises the folder (io::sync_folder).
  void commit();

  const std::string& path() const { return path_; }
  /// The length of the file.
  std::uint64_t length() const { return end_; }

 private:
  std::string path_;
  RawFile file_;
  std::uint64_t next_ = 0, end_ = 0;
  bool committed_ = false;
};

}  // namespace shard8::io
