// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "checkpoint/masters.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <system_error>
#include <vector>

#include "base/error.hpp"
#include "checkpoint/directory.hpp"
#include "io/file.hpp"
#include "io/tensor_formats.hpp"
#include "tensor/float8.hpp"

namespace shard8::checkpoint {
namespace {

/// Elements of a split master that are joined at once. Chosen: their halves take 4 MiB each, a block of a file.
constexpr std::int64_t kJoinedAtOnce = std::int64_t{2} << 20;

constexpr const char* kSingle = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";
constexpr const char* kConfig = "config.json";

/// Values that are read and written at once. Chosen: 64 MiB in fp32.
constexpr std::int64_t kWrittenAtOnce = std::int64_t{16} << 20;

using File = std::vector<io::SafetensorsTensor>;

/// The tensors of each file.
std::vector<File> files_of(const io::TensorFile& weights, const ExportOptions& options) {
  std::vector<File> files(1);
  std::uint64_t bytes = 0;
  for (const std::string& name : weights.names()) {
    io::SafetensorsTensor t{name, options.dtype == tensor::DType::bf16 ? "BF16" : "F32", weights.shape(name),
                            tensor::size_of(options.dtype)};
    for (const std::int64_t extent : t.shape) t.bytes *= static_cast<std::uint64_t>(extent);
    if (!files.back().empty() && bytes + t.bytes > options.largest_file) {
      files.emplace_back();
      bytes = 0;
    }
    bytes += t.bytes;
    files.back().push_back(std::move(t));
  }
  return files;
}

std::string file_name(std::size_t index, std::size_t count) {
  return count == 1 ? kSingle : fmt::format("model-{:05d}-of-{:05d}.safetensors", index + 1, count);
}

bool is_export(const std::string& name) {
  return name == kSingle || name == kIndex || name == kConfig ||
         (name.starts_with("model-") && name.find("-of-") != std::string::npos && name.ends_with(".safetensors"));
}

/// The files of an earlier export in the folder, which is made if it is missing.
std::vector<std::string> files_in(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!error && !std::filesystem::is_directory(folder, error)) error = std::make_error_code(std::errc::not_a_directory);
  if (error)
    base::fail(base::ExitCode::environment,
               "cannot make folder '{}': {}; give --to a folder that can be written to and has room", folder,
               error.message());
  std::vector<std::string> names = names_in(folder);
  std::erase_if(names, [](const std::string& name) { return !is_export(name); });
  return names;
}

void write_tensor(io::SafetensorsWriter& writer, const io::TensorFile& weights, const io::SafetensorsTensor& t,
                  tensor::DType dtype) {
  const io::Box whole{0, t.shape[0], 0, t.shape.size() == 1 ? 1 : t.shape[1]};
  const std::int64_t rows_at_once = std::clamp<std::int64_t>(kWrittenAtOnce / whole.cols, 1, whole.rows);
  std::vector<float> values;
  std::vector<tensor::BFloat16> rounded;
  for (std::int64_t first = 0; first < whole.rows; first += rows_at_once) {
    const io::Box rows = io::clip_rows(whole, first, rows_at_once);
    values.resize(static_cast<std::size_t>(rows.count()));
    weights.read_box(t.name, rows, values.data(), rows.cols);
    if (dtype == tensor::DType::fp32) {
      writer.write(std::as_bytes(std::span(values)));
      continue;
    }
    rounded.resize(values.size());
    std::transform(values.begin(), values.end(), rounded.begin(), [](float x) { return tensor::BFloat16(x); });
    writer.write(std::as_bytes(std::span(rounded)));
  }
}

std::string index_text(const std::vector<File>& files, std::uint64_t bytes) {
  nlohmann::ordered_json index;
  index["metadata"] = {{"total_size", bytes}};
  auto& map = index["weight_map"] = nlohmann::ordered_json::object();
  for (std::size_t f = 0; f < files.size(); ++f)
    for (const io::SafetensorsTensor& t : files[f]) map[t.name] = file_name(f, files.size());
  return index.dump(2) + "\n";
}

}  // namespace

Masters::Masters(const Checkpoint& checkpoint, LikelyRanks likely)
    : TensorFile(checkpoint.folder), reader_(checkpoint.folder, checkpoint.manifest, std::move(likely)) {
  for (const ManifestTensor& t : reader_.manifest().tensors) {
    if (t.content != name_of(Content::master)) continue;
    const auto needed = is_split(t.name) ? tensor::DType::bf16 : tensor::DType::fp32;
    if (t.dtype != needed)
      base::fail(base::ExitCode::checkpoint, "checkpoint {}: the master of '{}' is {}, needed is {}: use another one",
                 checkpoint.folder, t.name, tensor::name_of(t.dtype), tensor::name_of(needed));
    add(t.name, t.shape);
  }
}

bool Masters::is_split(const std::string& name) const { return find(name, Content::master_remainder) != nullptr; }

void Masters::read(const ManifestTensor& tensor, const io::Box& box, std::byte* out,
                   std::int64_t row_stride_bytes) const {
  const std::lock_guard guard(mutex_);
  reader_.read(tensor, box, out, row_stride_bytes);
}

void Masters::read_checked(const std::string& name, const io::Box& box, float* out, std::int64_t row_stride) const {
  const ManifestTensor& master = *find(name, Content::master);
  const ManifestTensor* const remainder = find(name, Content::master_remainder);
  if (remainder == nullptr) {
    read(master, box, reinterpret_cast<std::byte*>(out), row_stride * static_cast<std::int64_t>(sizeof(float)));
    return;
  }
  const std::int64_t rows_at_once = std::clamp<std::int64_t>(kJoinedAtOnce / box.cols, 1, box.rows);
  std::vector<std::uint16_t> weights(static_cast<std::size_t>(rows_at_once * box.cols));
  std::vector<std::int16_t> remainders(weights.size());
  const auto stride = box.cols * static_cast<std::int64_t>(sizeof(std::uint16_t));
  for (std::int64_t first = 0; first < box.rows; first += rows_at_once) {
    const io::Box rows = io::clip_rows(box, box.row0 + first, rows_at_once);
    read(master, rows, reinterpret_cast<std::byte*>(weights.data()), stride);
    read(*remainder, rows, reinterpret_cast<std::byte*>(remainders.data()), stride);
    for (std::int64_t r = 0; r < rows.rows; ++r) {
      for (std::int64_t c = 0; c < rows.cols; ++c) {
        const auto i = static_cast<std::size_t>(r * rows.cols + c);
        out[(first + r) * row_stride + c] =
            tensor::join_halves(std::bit_cast<tensor::BFloat16>(weights[i]), remainders[i]);
      }
    }
  }
}

Exported export_weights(const io::TensorFile& weights, const std::string& folder, const std::string& config,
                        const ExportOptions& options) {
  const std::vector<std::string> before = files_in(folder);
  if (!before.empty() && !options.replace)
    base::fail(base::ExitCode::deck, "'{}' has a file {} already: give --to another folder, or --force to replace it",
               folder, before.front());
  for (const std::string& name : before)
    if (kind_of(folder + "/" + name, false) == Kind::folder)
      base::fail(
          base::ExitCode::environment,
          "'{}/{}' is a folder, which an export does not replace: give --to another folder, or move it elsewhere",
          folder, name);
  const std::vector<File> files = files_of(weights, options);
  Exported exported;
  std::vector<std::unique_ptr<io::SafetensorsWriter>> writers;
  for (std::size_t f = 0; f < files.size(); ++f) {
    exported.files.push_back(file_name(f, files.size()));
    auto& writer =
        *writers.emplace_back(std::make_unique<io::SafetensorsWriter>(folder + "/" + exported.files.back(), files[f]));
    for (const io::SafetensorsTensor& t : files[f]) {
      write_tensor(writer, weights, t, options.dtype);
      exported.bytes += t.bytes;
      ++exported.tensors;
    }
    writer.finish();
  }
  for (const std::string& name : before) remove_file(folder + "/" + name);
  for (const auto& writer : writers) writer->commit();
  if (files.size() > 1) {
    exported.files.emplace_back(kIndex);
    io::write_durably(fmt::format("{}/{}", folder, kIndex), index_text(files, exported.bytes));
  }
  exported.files.emplace_back(kConfig);
  io::write_durably(fmt::format("{}/{}", folder, kConfig), config);
  return exported;
}

}  // namespace shard8::checkpoint
